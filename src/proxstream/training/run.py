"""A training run from its order to its model file: streams opened, session run, checkpoints kept, model written.

What a run shows goes to a `Watch`; what it is asked by signals comes in through `stop`. The order of the last steps is
what makes a run safe to kill: the model takes its place as a whole, and only then is the checkpoint removed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol, Self

from ..learner import Learner
from ..model import Model
from ..streams import Position, open_stream
from ..streams.features import FeatureSpec
from ..streams.featurizer import Featurizer
from . import heldout, report
from .checkpoint import Keeper, Kept
from .order import Order
from .report import Line, Pass
from .session import NoRowsError, Session

NUMBERED = {"svmlight", "cache"}  # formats whose features are numbers


class Watch(Protocol):
    """Who looks on."""

    def started(self, run: Run) -> None:
        """Reading begins."""

    def line(self, line: Line, run: Run) -> None:
        """A line of the table is due."""

    def passed(self, ended: Pass, run: Run) -> None:
        """A pass has ended."""

    def moved(self, run: Run) -> None:
        """A chunk has been learned."""


class OutputError(OSError):
    """A model that could not be written at the end: told before anything is learned."""


class Run:
    """One run of an order.

    Parameters
    ----------
    order : Order
    learner : Learner
        As the order makes it.
    watch : Watch
    """

    def __init__(self, order: Order, learner: Learner, watch: Watch) -> None:
        self.order, self.watch = order, watch
        self.settings = order.settings()
        self.keeper = Keeper(order.output, self.settings, *order.checkpoint_due())
        kept = self._found()
        self._features: Any = order.features
        if kept is not None and kept.features is not None:
            self._features = Featurizer(FeatureSpec.from_json(kept.features), order.dtype)
            self._features.restore(kept.names)
        self.stream = self._open(order.data, order.reading())
        if not set(self.stream.formats) <= NUMBERED:
            self._features = self.stream.featurizer
        self._held_out = None
        if order.holdout and order.share() is None:
            self._held_out = self._open((order.holdout,), order.reading_held_out())
        self.session = Session(
            self._sized(learner),
            order.labels(),
            order.plan(),
            held_out=self._held_out,
            on_line=lambda line: watch.line(line, self),
            on_pass=lambda ended: watch.passed(ended, self),
            on_chunk=self._after_chunk,
        )
        self.resumed, self.finished, self.skipped = kept is not None, False, 0
        if kept is not None:
            self.session.restore(kept.session, kept.arrays)

    def _found(self) -> Kept | None:
        """Return the checkpoint to go on from."""
        if not self.order.resume:
            return None
        self.keeper.sweep()
        return self.keeper.find()

    def _open(self, data: tuple[str, ...], reading: dict[str, Any]) -> Any:
        return open_stream(list(data), self.order.format, features=self._features, **reading)

    def _sized(self, learner: Learner) -> Learner:
        """Return the learner, or one with as many features as hashing makes, or as it has to know from the start."""
        from ..engines.dense import DenseEngine

        if learner.t > 0:
            return learner
        spec = self.featurizer.spec if self.featurizer is not None else None
        if spec is not None and spec.bits is not None:
            return self.order.learner(1 << spec.bits)
        if not isinstance(learner.engine, DenseEngine):
            return learner
        if not self.stream.rereadable:
            raise ValueError(
                f"{', '.join(self.stream.names)}: can be read once, and {learner.algorithm!r} with {learner.penalty!r} "
                "needs the number of features first"
            )
        return self.order.learner(max((chunk.rows.n_features for chunk in self.stream.chunks()), default=1))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stream, self._held_out):
            if stream is not None:
                stream.close()

    def __call__(self) -> None:
        """Run to the end and write the model, or leave the one that is there if this very run has made it."""
        session = self.session
        if self.order.resume and not self.resumed and self._is_finished():
            return
        self.watch.started(self)
        try:
            session.run(self.stream)
        except NoRowsError:
            skipped = self.stream.skipped + session.facts.bad_labels
            more = f", {skipped:,} skipped" if skipped else ""
            raise NoRowsError(f"{', '.join(self.stream.names)}: no rows to learn from{more}") from None
        self.skipped = self.stream.skipped + session.facts.bad_labels
        self.write()
        self.keeper.clear()

    def _is_finished(self) -> bool:
        """Tell whether the model is there already: made with these settings, from all of these rows and no others.

        The rows are read again for their checksum, as they are to go on from a checkpoint.
        """
        from .. import modelfile

        if not self.stream.rereadable or not os.path.isfile(self.order.output):
            return False
        try:
            made = modelfile.load(self.order.output).summary
            if made["options"] != self.order.words():
                return False
            self.finished = next(self.stream.chunks(Position(*made["end_of_input"])), None) is None
        except (ValueError, TypeError, AttributeError, LookupError):  # no model, or one of other rows
            return False
        return self.finished

    def stop(self) -> None:
        """Ask the run to stop, from a signal handler."""
        self.session.stop()

    def keep(self) -> None:
        """Write a checkpoint now."""
        self.keeper.keep(self.session, self.featurizer)

    def _after_chunk(self) -> None:
        if self.keeper.is_due(self.session):
            self.keep()
        self.watch.moved(self)

    @property
    def featurizer(self) -> Featurizer | None:
        """What gives features their meaning, None where they are numbers in the files themselves."""
        featurizer: Featurizer | None = self.stream.used_featurizer
        return featurizer

    # ---- the model

    def write(self) -> None:
        """Write the model."""
        from .. import modelfile

        modelfile.save(self.model(), self.order.output, weights_only=self.order.weights_only)

    def model(self) -> Model:
        """Return the model as it stands: nothing in it depends on the clock, the machine, or where the run was cut."""
        session, order, featurizer = self.session, self.order, self.featurizer
        return Model(
            session.learner,
            classes=session.classes,
            features=None if featurizer is None else featurizer.spec.to_json(),
            names={} if featurizer is None else featurizer.arrays(),
            reading={"zero_based": order.zero_based},
            history=[report.record(told) for told in _in_order(session.lines, session.passes)],
            summary={**self.summary, "options": order.words(), "end_of_input": list(session.facts.position)},
        )

    @cached_property
    def summary(self) -> dict[str, Any]:
        """How the run ended, in numbers."""
        session = self.session
        facts: dict[str, Any] = {
            "rows": session.facts.all_rows,
            "skipped": self.skipped,
            "passes": len(session.passes),
            "progressive_loss": session.progressive_loss,
        }
        if session.facts.zeros and session.facts.negatives and session.labels.usual:
            facts["negative_labels"] = [-1, 0]
        best = session.tally.best_constant()
        if best is not None:
            facts |= {"best_constant": self._shown(best.value), "best_constant_loss": best.loss}
        facts |= session.tally.facts()
        facts |= heldout.summary(session.passes, bool(self.order.early_stop))
        learner = session.learner
        return facts | {"nonzeros": learner.count_nonzero(), "weights": learner.n_features * learner.n_outputs}

    def _shown(self, score: float) -> float:
        """Return a constant score as a prediction; of several classes it is the class."""
        learner, classes = self.session.learner, self.session.labels.classes
        return classes[int(score)] if learner.n_outputs > 1 else report.prediction(learner.loss, score)


def _in_order(lines: Sequence[Line], passes: Sequence[Pass]) -> list[Line | Pass]:
    """Return lines and passes as they were told: a pass behind its own lines."""
    return sorted([*lines, *passes], key=lambda told: told.number)


def check_output(path: str) -> None:
    """Raise an OutputError unless a file can be written at this path."""
    folder = os.path.dirname(path) or "."
    if path == "-":
        raise OutputError("-: a model is written whole, expected a file, not standard output")
    if not os.path.isdir(folder):
        raise OutputError(f"{path}: the folder {folder} does not exist")
    if os.path.isdir(path):
        raise OutputError(f"{path}: is a folder, expected a file to write the model to")
    if not os.access(folder, os.W_OK | os.X_OK) or (os.path.exists(path) and not os.access(path, os.W_OK)):
        raise OutputError(f"{path}: cannot be written")
