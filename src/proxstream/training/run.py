"""A training run from its configuration to the model file: opens streams, runs the session, writes checkpoints.

Progress goes to a `Watch`; signals call `stop`. A run is safe to kill because the model file is replaced atomically,
and only then is the checkpoint removed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self

from ..io import Position, open_stream
from ..io.features.spec import FeatureSpec
from ..io.formats import NUMBERED
from ..learner.divergence import check_finite
from ..learner.learner import Learner
from ..models.model import Model
from . import holdout, report
from .checkpoint import Checkpoint, CheckpointStore
from .config import TrainConfig
from .report import Line, Pass
from .session import NoRowsError, Session

if TYPE_CHECKING:
    from ..io.features.featurizer import Featurizer


class Watch(Protocol):
    """Receives the progress of a run."""

    def on_start(self, run: Run) -> None:
        """Reading starts."""

    def on_line(self, line: Line, run: Run) -> None:
        """A line of the table is due."""

    def on_pass(self, ended: Pass, run: Run) -> None:
        """A pass has ended."""

    def on_chunk(self, run: Run) -> None:
        """A chunk has been learned."""


class OutputError(OSError):
    """The model file cannot be written; raised before training starts."""


class Run:
    """One training run.

    Parameters
    ----------
    config : TrainConfig
    watch : Watch
    learner : Learner, optional
        A trained one to continue with.
    """

    def __init__(self, config: TrainConfig, watch: Watch, learner: Learner | None = None) -> None:
        self.config, self.watch = config, watch
        self.checkpoints = CheckpointStore(config.output, config.settings(), *config.checkpoint_interval())
        checkpoint = self._find_checkpoint()
        self._features: Any = config.features
        if checkpoint is not None and checkpoint.features is not None:
            from ..io.features.featurizer import Featurizer

            self._features = Featurizer(FeatureSpec.from_json(checkpoint.features), config.dtype)
            self._features.restore(checkpoint.names)
        self.stream = self._open(config.data, config.stream_options())
        if not set(self.stream.formats) <= NUMBERED:
            self._features = self.stream.featurizer
        self._held_out = None
        if config.holdout_file is not None:
            self._held_out = self._open((config.holdout_file,), config.holdout_options())
        self.session = Session(
            learner or self._new_learner(),
            config.labels(),
            config.plan(),
            held_out=self._held_out,
            on_line=lambda line: watch.on_line(line, self),
            on_pass=lambda ended: watch.on_pass(ended, self),
            on_chunk=self._after_chunk,
        )
        self.resumed, self.finished, self.skipped = checkpoint is not None, False, 0
        if checkpoint is not None:
            self.session.restore(checkpoint.session, checkpoint.arrays)

    def _find_checkpoint(self) -> Checkpoint | None:
        """Return the checkpoint to resume from."""
        if not self.config.resume:
            return None
        self.checkpoints.sweep()
        return self.checkpoints.find()

    def _open(self, data: tuple[str, ...], reading: dict[str, Any]) -> Any:
        return open_stream(list(data), self.config.format, features=self._features, **reading)

    def _new_learner(self) -> Learner:
        """Return a new learner with as many features as hashing makes; one that cannot grow needs their number."""
        from ..learner.engine import CompiledEngine

        spec = self.featurizer.spec if self.featurizer is not None else None
        if spec is not None and spec.bits is not None:
            return self.config.learner(1 << spec.bits)
        learner = self.config.learner()
        if isinstance(learner.engine, CompiledEngine):
            return learner
        if not self.stream.rereadable:
            raise ValueError(
                f"{', '.join(self.stream.names)}: can be read only once, and {learner.algorithm!r} needs the number of "
                f"features first (penalty {learner.penalty!r}); pass a file"
            )
        return self.config.learner(max((chunk.rows.n_features for chunk in self.stream.chunks()), default=1))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stream, self._held_out):
            if stream is not None:
                stream.close()

    def __call__(self) -> None:
        """Run to the end and write the model; do nothing if `resume` finds a model that this run would write."""
        session = self.session
        if self.config.resume and not self.resumed and self._is_finished():
            return
        self.watch.on_start(self)
        try:
            session.run(self.stream)
        except NoRowsError:
            skipped = self.stream.skipped + session.progress.bad_labels
            more = f", {skipped:,} skipped" if skipped else ""
            raise NoRowsError(f"{', '.join(self.stream.names)}: no rows to learn from{more}") from None
        self.skipped = self.stream.skipped + session.progress.bad_labels
        self.write()
        self.checkpoints.clear()

    def _is_finished(self) -> bool:
        """Return whether the model exists already, trained with these settings on exactly these rows.

        The rows are read again for their checksum, as when resuming from a checkpoint.
        """
        from ..models import file as modelfile

        if not self.stream.rereadable or not os.path.isfile(self.config.output):
            return False
        try:
            summary = modelfile.load(self.config.output).summary
            if summary["options"] != self.config.command_line():
                return False
            self.finished = next(self.stream.chunks(Position(*summary["end_of_input"])), None) is None
        except (ValueError, TypeError, AttributeError, LookupError):  # not a model, or trained on other rows
            return False
        return self.finished

    def stop(self) -> None:
        """Stop between two chunks; safe to call from a signal handler."""
        self.session.stop()

    def save_checkpoint(self) -> None:
        """Write a checkpoint now."""
        self.checkpoints.save(self.session, self.featurizer)

    def _after_chunk(self) -> None:
        if self.checkpoints.is_due(self.session):
            self.save_checkpoint()
        self.watch.on_chunk(self)

    @property
    def featurizer(self) -> Featurizer | None:
        """The featurizer, None where the files have numbered features."""
        featurizer: Featurizer | None = self.stream.used_featurizer
        return featurizer

    # ---- the model

    def write(self) -> None:
        """Write the model after checking that all of its numbers are finite."""
        from ..models import file as modelfile

        check_finite(self.session.learner, ", ".join(self.stream.names))
        modelfile.save(self.model(), self.config.output, weights_only=self.config.weights_only)

    def model(self) -> Model:
        """Return the current model; it does not depend on the clock, the machine, or interruptions."""
        session, config, featurizer = self.session, self.config, self.featurizer
        return Model(
            session.learner,
            classes=session.classes,
            features=None if featurizer is None else featurizer.spec.to_json(),
            names={} if featurizer is None else featurizer.arrays(),
            reading=self._reading(),
            history=[report.as_record(entry) for entry in _merge(session.lines, session.passes)],
            summary={**self.summary, "options": config.command_line(), "end_of_input": list(session.progress.position)},
        )

    def _reading(self) -> dict[str, Any]:
        """Return how new data are to be read: rows with an index 0 are not those of data that count from 1."""
        reading: dict[str, Any] = {"zero_based": self.config.zero_based}
        if self.config.zero_based and set(self.stream.formats) == {"svmlight"} and not self.session.progress.index_zero:
            reading["min_index"] = 1
        return reading

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The result of the run in numbers."""
        session = self.session
        summary: dict[str, Any] = {
            "rows": session.progress.all_rows,
            "skipped": self.skipped,
            "passes": len(session.passes),
            "progressive_loss": session.progressive_loss,
        }
        if session.progress.zeros and session.progress.negatives and session.labels.default:
            summary["negative_labels"] = [-1, 0]
        best = session.tally.best_constant()
        if best is not None:
            summary |= {"best_constant": self._shown(best.value), "best_constant_loss": best.loss}
        summary |= session.tally.facts()
        summary |= holdout.summary(session.passes, bool(self.config.early_stop))
        learner = session.learner
        return summary | {"nonzeros": learner.count_nonzero(), "weights": learner.n_features * learner.n_outputs}

    def _shown(self, score: float) -> float:
        """Return a constant score as a prediction: for several classes, the class."""
        learner, classes = self.session.learner, self.session.labels.classes
        return classes[int(score)] if learner.n_outputs > 1 else report.prediction(learner.loss, score)


def _merge(lines: Sequence[Line], passes: Sequence[Pass]) -> list[Line | Pass]:
    """Return lines and passes in the order of their reports: a pass after its own lines."""
    return sorted([*lines, *passes], key=lambda entry: entry.number)


def check_output(path: str) -> None:
    """Raise an OutputError unless a file can be written at this path."""
    folder = os.path.dirname(path) or "."
    if path == "-":
        raise OutputError("-: a model cannot be written to standard output; pass a file")
    if not os.path.isdir(folder):
        raise OutputError(f"{path}: the folder {folder} does not exist")
    if os.path.isdir(path):
        raise OutputError(f"{path}: is a folder; pass a file")
    if not os.access(folder, os.W_OK | os.X_OK) or (os.path.exists(path) and not os.access(path, os.W_OK)):
        raise OutputError(f"{path}: cannot be written")
