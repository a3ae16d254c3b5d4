"""Training from streams: sessions with progress reports, held-out rows, early stopping and checkpoints."""

from .checkpoint import CheckpointStore, SettingsChangedError
from .labels import BadLabelError, Labels
from .report import Line, Pass
from .session import Interrupted, NoRowsError, Plan, Progress, Session, Source

__all__ = [
    "BadLabelError",
    "CheckpointStore",
    "Interrupted",
    "Labels",
    "Line",
    "NoRowsError",
    "Pass",
    "Plan",
    "Progress",
    "Session",
    "SettingsChangedError",
    "Source",
]
