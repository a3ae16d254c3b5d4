"""A training run from its configuration to the model file: opens streams, runs the session, writes checkpoints.

Progress goes to a `Watch`; signals call `stop`. A run is safe to kill because the model file is replaced atomically,
and only then is the checkpoint removed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

from ..core.validation import Array
from ..data.order import LabelOrder
from ..data.rowblock import RowBlock
from ..io import Position, open_stream
from ..io.features.spec import FeatureSpec
from ..io.formats import NUMBERED
from ..learner.divergence import check_finite
from ..learner.learner import Learner
from ..models.model import Model
from . import holdout, report
from .base_session import BaseSession, NoRowsError, under
from .checkpoint import CheckpointStore
from .config import TrainConfig
from .learners import find_strengths, make_path_learner
from .opening import OpenedStream, opening_rows
from .report import Line, Pass
from .session import Session

if TYPE_CHECKING:
    from ..io.features.featurizer import Featurizer
    from ..models.path import ModelPath

NAMES = "names."  # prefix of arrays of feature names in a checkpoint


class Watch(Protocol):
    """Receives the progress of a run."""

    def on_start(self, run: BaseRun) -> None:
        """Reading starts."""

    def on_line(self, line: Line, run: BaseRun) -> None:
        """A line of the table is due."""

    def on_pass(self, ended: Pass, run: BaseRun) -> None:
        """A pass has ended."""

    def on_chunk(self, run: BaseRun) -> None:
        """A chunk has been learned."""

    def on_order(self, labels: LabelOrder, run: BaseRun) -> None:
        """Rows look ordered by their labels."""


def _has_strengths(learner: Any) -> bool:
    """Return whether a learner is one of several strengths: modules of these are imported only where they are used."""
    return hasattr(learner, "strengths")


def _session_of(learner: Learner) -> type[Session]:
    if not _has_strengths(learner):
        return Session
    from .path_session import PathSession

    return PathSession


class OutputError(OSError):
    """The model file, or a report, cannot be written; raised before training starts."""


class BaseRun:
    """A run that writes a model, whoever learns the rows: `Run` in this process, `cluster.train.ClusterRun` in lanes.

    A subclass sets `session`, learns in `_learn`, and names its files.

    Parameters
    ----------
    config : TrainConfig
    watch : Watch
    """

    session: BaseSession
    checkpoints: CheckpointStore
    names: Sequence[str]  # of the files
    formats: Sequence[str]
    n_bytes: int | None  # of the files, if known

    def __init__(self, config: TrainConfig, watch: Watch) -> None:
        self.config, self.watch = config, watch
        self.resumed = self.finished = False
        self.remark = ""  # about the model, for the summary

    def __call__(self) -> None:
        """Run to the end and write the model; do nothing if `resume` finds a model that this run would write."""
        if self.config.resume and not self.resumed and self._is_finished():
            return
        self.watch.on_start(self)
        try:
            self._learn()
        except NoRowsError:
            more = f", {self.skipped:,} skipped" if self.skipped else ""
            raise NoRowsError(f"{', '.join(self.names)}: no rows to learn from{more}") from None
        self.write()
        self.checkpoints.clear()

    def _is_finished(self) -> bool:
        """Return whether the model exists already."""
        return False

    def _learn(self) -> None:
        """Learn all passes."""
        raise NotImplementedError

    @property
    def skipped(self) -> int:
        """Skipped rows: bad rows, and rows with labels that the loss does not accept."""
        raise NotImplementedError

    def _position(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return what a checkpoint has beside the session, as JSON values and arrays."""
        raise NotImplementedError

    def save_checkpoint(self) -> None:
        """Write a checkpoint now."""
        header, arrays = self._position()
        header, arrays = {"session": self.session.record(), **header}, self.session.arrays() | arrays
        self.checkpoints.save(header, arrays, self.session.progress.all_rows)

    def _reports(self) -> dict[str, Any]:
        """Return the functions that a session calls."""
        return {
            "on_line": lambda line: self.watch.on_line(line, self),
            "on_pass": lambda ended: self.watch.on_pass(ended, self),
        }

    # ---- the model

    def write(self) -> None:
        """Write the model after checking that all of its numbers are finite."""
        from ..models import file as modelfile

        check_finite(self.session.learner, ", ".join(self.names))
        modelfile.save(self.model(), self.config.output, weights_only=self.config.weights_only)

    def model(self) -> Model:
        """Return the current model; it does not depend on the clock, the machine, or interruptions."""
        session, (spec, names) = self.session, self._features_and_names()
        return Model(
            session.learner,
            classes=session.classes,
            features=None if spec is None else spec.to_json(),
            names=names,
            reading=self.config.reading(self.formats, index_zero=self.session.progress.index_zero),
            history=_history(session),
            summary={**self.summary, "options": self.config.command_line(), **self._origin()},
            path=self._kept_path(),
        )

    def _kept_path(self) -> ModelPath | None:
        """Return the models of all strengths if they are to be stored."""
        session: Any = self.session
        if not self.config.keep_path or getattr(session, "path", None) is None:
            return None
        from ..models.path import ModelPath

        return ModelPath(session.path, [_history(member) for member in session.members], session.held_out)

    def _features_and_names(self) -> tuple[FeatureSpec | None, dict[str, Array]]:
        """Return how features are made, None where they are numbers, and their names."""
        raise NotImplementedError

    def _origin(self) -> dict[str, Any]:
        """Return what the summary in the model says about the data that were read."""
        raise NotImplementedError

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The result of the run in numbers."""
        session, learner = self.session, self.session.learner
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
            value = best.value if learner.n_outputs > 1 else report.prediction(learner.loss, best.value)
            summary |= {"best_constant": session.shown(value), "best_constant_loss": best.loss}
        summary |= session.tally.facts()
        summary |= holdout.summary(session.passes, session.progress.best_pass)
        summary |= {"nonzeros": learner.count_nonzero(), "weights": learner.n_features * learner.n_outputs}
        return summary | session.path_summary


class Run(BaseRun):
    """A training run in this process.

    Parameters
    ----------
    config : TrainConfig
    watch : Watch
    learner : Learner, optional
        A trained one to continue with.
    """

    session: Session

    def __init__(self, config: TrainConfig, watch: Watch, learner: Learner | None = None) -> None:
        super().__init__(config, watch)
        rows, seconds = config.checkpoint_interval()
        self.checkpoints = CheckpointStore(f"{config.output}.ckpt", config.settings(), rows=rows, seconds=seconds)
        checkpoint = None
        if config.resume:
            self.checkpoints.sweep()
            checkpoint = self.checkpoints.find()
        self._features: Any = config.features
        if checkpoint is not None and checkpoint[0]["features"] is not None:
            spec = FeatureSpec.from_json(checkpoint[0]["features"])
            self._features = _restored(spec, config.dtype, under(NAMES, checkpoint[1]))
        elif config.initial_names:
            self._features = _restored(config.features, config.dtype, config.initial_names)
        self.stream = self._open(config.data, config.stream_options())
        self._source = OpenedStream(self.stream)
        self.names, self.formats, self.n_bytes = self.stream.names, self.stream.formats, self.stream.n_bytes
        if not set(self.formats) <= NUMBERED:
            self._features = self.stream.featurizer
        self._held_out = self._again = None
        if config.holdout_file is not None:
            self._held_out = self._open((config.holdout_file,), config.holdout_options())
        elif config.held_out_share and self.stream.rereadable:
            self._again = self._open(config.data, config.again_options())
        made = learner or self._new_learner(None if checkpoint is None else checkpoint[0].get("strengths"))
        self.session = _session_of(made)(
            made,
            config.labels(),
            config.plan(),
            standardize=self._standardize,
            held_out=self._held_out,
            again=self._again,
            on_chunk=self._after_chunk,
            on_order=lambda labels: self.watch.on_order(labels, self),
            **self._reports(),
        )
        if checkpoint is not None:
            self.resumed = True
            self.session.restore(checkpoint[0]["session"], checkpoint[1])

    def _standardize(self, rows: RowBlock, learn: bool) -> RowBlock:
        """Return rows of a table with standardized numbers; statistics are those of rows learned in the first pass."""
        featurizer = self.featurizer
        return rows if featurizer is None else featurizer.standardize(rows, learn=learn)

    def _open(self, data: tuple[str, ...], reading: dict[str, Any]) -> Any:
        return open_stream(list(data), self.config.format, features=self._features, **reading)

    def _new_learner(self, strengths: Sequence[float] | None = None) -> Learner:
        """Return a new learner, of the strengths of a checkpoint if there are any."""
        if not self.config.is_path:
            return self.config.learner(self._n_features())
        if strengths is None:
            strengths = self._find_strengths()
        return make_path_learner(self.config, strengths, self._n_features())

    def _find_strengths(self) -> list[float]:
        """Return the strengths of a path, found by the first rows unless options name them."""
        config = self.config
        if isinstance(config.l1, tuple):
            return [*config.l1]
        rows = opening_rows(
            self._source,
            config.labels(),
            held_out=config.held_out_share,
            skip=config.skip_bad_rows,
            featurizer=lambda: self.featurizer,
        )
        if rows is None:
            raise NoRowsError(f"{', '.join(self.names)}: no rows to learn from")
        return find_strengths(config, rows)

    def _n_features(self) -> int:
        """Return with how many features a learner starts: those of hashing; one that cannot grow needs all."""
        from ..learner.engine import CompiledEngine
        from ..learner.trial import TrialEngine

        spec = self.featurizer.spec if self.featurizer is not None else None
        hashed = 1 if spec is None or spec.bits is None else 1 << spec.bits
        learner = self.config.learner(hashed)
        grows = isinstance(learner.engine, (CompiledEngine, TrialEngine))
        if grows or (hashed > 1 and spec is not None and not spec.standardize):
            return hashed
        if not self.stream.rereadable:
            raise ValueError(
                f"{', '.join(self.stream.names)}: can be read only once, and {learner.algorithm!r} needs the number of "
                f"features first (penalty {learner.penalty!r}); pass a file"
            )
        found = max((chunk.rows.n_features for chunk in self.stream.chunks()), default=1)
        return max(found, learner.n_features)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stream, self._held_out, self._again):
            if stream is not None:
                stream.close()

    def _learn(self) -> None:
        self.session.run(self._source)
        if hasattr(self.session, "choose"):
            self.remark = self.session.choose(self.config.choice)

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

    @property
    def skipped(self) -> int:
        """Skipped rows."""
        return int(self.stream.skipped) + self.session.progress.bad_labels

    def _position(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the features; the reader is ahead, so only names from rows that the session has seen are saved."""
        featurizer, learner = self.featurizer, cast(Any, self.session.learner)
        more = {"strengths": learner.strengths.tolist()} if _has_strengths(learner) else {}
        if featurizer is None:
            return {"features": None, **more}, {}
        names = featurizer.arrays(self.session.progress.position.names)
        return {"features": featurizer.spec.to_json(), **more}, {
            f"{NAMES}{name}": array for name, array in names.items()
        }

    def _after_chunk(self) -> None:
        if self.checkpoints.is_due(self.session.progress.all_rows):
            self.save_checkpoint()
        self.watch.on_chunk(self)

    @property
    def featurizer(self) -> Featurizer | None:
        """The featurizer, None where the files have numbered features."""
        featurizer: Featurizer | None = self.stream.used_featurizer
        return featurizer

    def _features_and_names(self) -> tuple[FeatureSpec | None, dict[str, Array]]:
        featurizer = self.featurizer
        return (None, {}) if featurizer is None else (featurizer.spec, featurizer.arrays())

    def _origin(self) -> dict[str, Any]:
        return {"end_of_input": list(self.session.progress.position)}


def _restored(spec: FeatureSpec, dtype: str, arrays: Mapping[str, Array]) -> Featurizer:
    """Return a featurizer that continues from names and statistics."""
    from ..io.features.featurizer import Featurizer

    made = Featurizer(spec, dtype)
    made.restore(arrays)
    return made


def _history(session: BaseSession) -> list[dict[str, Any]]:
    """Return lines and passes as records, in the order of their reports: a pass after its own lines."""
    entries: list[Line | Pass] = sorted([*session.lines, *session.passes], key=lambda entry: entry.number)
    return [report.as_record(entry) for entry in entries]


def check_output(path: str, what: str = "a model") -> None:
    """Raise an OutputError unless a file can be written at this path."""
    folder = os.path.dirname(path) or "."
    if path == "-":
        raise OutputError(f"-: {what} cannot be written to standard output; pass a file")
    if not os.path.isdir(folder):
        raise OutputError(f"{path}: the folder {folder} does not exist")
    if os.path.isdir(path):
        raise OutputError(f"{path}: is a folder; pass a file")
    if not os.access(folder, os.W_OK | os.X_OK) or (os.path.exists(path) and not os.access(path, os.W_OK)):
        raise OutputError(f"{path}: cannot be written")
