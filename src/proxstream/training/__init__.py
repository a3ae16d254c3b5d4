"""Training from streams: sessions that learn, report, hold out, stop early, and survive being killed."""

from .checkpoint import Keeper, SettingsChangedError
from .labels import BadLabelError, Labels
from .report import Line, Pass
from .session import Facts, Interrupted, NoRowsError, Plan, Session, Source

__all__ = [
    "BadLabelError",
    "Facts",
    "Interrupted",
    "Keeper",
    "Labels",
    "Line",
    "NoRowsError",
    "Pass",
    "Plan",
    "Session",
    "SettingsChangedError",
    "Source",
]
