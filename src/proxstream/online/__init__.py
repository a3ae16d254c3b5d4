"""The family on dense vectors, as the papers write it: exact, in plain NumPy, with regret and its bounds."""

from __future__ import annotations

from .bounds import Bound
from .learner import OnlineLearner
from .regret import Regret

__all__ = ["Bound", "OnlineLearner", "Regret"]
