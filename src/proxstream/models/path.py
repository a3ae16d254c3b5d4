"""ModelPath: all strengths of a path beside the model of the chosen one, so that another can be chosen later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..learner.path import PathLearner
from ..learner.path_losses import PairedLosses

if TYPE_CHECKING:
    from .model import Model


@dataclass(eq=False)
class ModelPath:
    """The models of all strengths of a training run.

    Parameters
    ----------
    learner : PathLearner
    histories : the training history of each strength, as in a `Model`
    held_out : PairedLosses, optional
        Losses of held-out rows, to choose by in place of the progressive losses.
    """

    learner: PathLearner
    histories: Sequence[list[dict[str, Any]]]
    held_out: PairedLosses | None = None

    def choose(self, rule: str | None = None, **rules: Any) -> int:
        """Return the place of the strength that a rule chooses: see `PathLearner.choose`."""
        return self.learner.choose(rule, held_out=self.held_out, **rules)

    def model(self, chosen: Model, k: int) -> Model:
        """Return the model of strength k alone, given that of the chosen strength."""
        facts = {name: value for name, value in chosen.summary["path"][k].items() if name != "difference_error"}
        learner = self.learner.model(k)
        return replace(chosen, learner=learner, history=self.histories[k], summary=chosen.summary | facts, path=None)

    def __proxstream_save__(self, weights_only: bool) -> dict[str, Any]:
        if weights_only:
            raise ValueError("a path cannot be stored with weights_only=True: choose one of its models")
        sums = None if self.held_out is None else self.held_out.sums
        return {"learner": self.learner, "histories": list(self.histories), "held_out": sums}

    @classmethod
    def __proxstream_load__(cls, parts: dict[str, Any]) -> Self:
        learner, histories, sums = (parts[name] for name in ("learner", "histories", "held_out"))
        if not isinstance(learner, PathLearner):
            raise TypeError(f"a path has a path learner, got {type(learner).__name__}")
        if not isinstance(histories, list) or len(histories) != len(learner.strengths):
            raise ValueError(f"a path of {len(learner.strengths)} strengths must have as many histories")
        if not all(isinstance(lines, list) and all(isinstance(line, dict) for line in lines) for lines in histories):
            raise TypeError("the histories of a path must be lists of dicts")
        held_out = None
        if sums is not None:
            held_out = PairedLosses(len(histories))
            if np.shape(sums) != held_out.sums.shape:
                raise ValueError(f"sums of held-out losses must have shape {held_out.sums.shape}, got {np.shape(sums)}")
            held_out.sums = np.array(sums, np.float64)
        return cls(learner, histories, held_out)
