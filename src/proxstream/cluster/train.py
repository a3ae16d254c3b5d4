"""`proxstream train --cluster`: a training run from its configuration to its model file, in lanes on a cluster.

It reports what `training.run.Run` reports and writes the same model file. Lines of the progress table are at the ends
of rounds: the first one after each number of rows at which a line is due. The last row shown is that of the last lane.

Rows are held out by their number in their own file, where a single stream counts through all files, so that they are
the same rows for any number of lanes. Each is predicted at its place, with the state of its lane, like the rows that
the lane learns. A held-out file is read by the client after each pass, with the merged state.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from functools import cached_property
from typing import Any

from distributed import Client

from ..core.validation import Array
from ..data import metrics
from ..io import open_stream
from ..learner.divergence import check_finite
from ..learner.learner import Learner
from ..models.model import Model
from ..training import holdout as heldout, report
from ..training.config import TrainConfig
from ..training.labels import Labels
from ..training.report import Line, Pass
from ..training.run import Watch
from ..training.session import Interrupted, Progress, floats, plain, under
from .checkpoint import CheckpointStore
from .labels import FileLabels
from .lane_reader import Quarantine
from .lanes import LaneReport
from .partitions import Partitions, make_partitions
from .rounds import Rounds
from .schedule import Plan, Round, RunProgress, choose_lanes, choose_rows, learner_settings

# Options that need a single stream.
REFUSED = {
    "pairs": "the rows of a query must be in one stream",
    "average": "averaged weights cannot be merged",
    "names": "workers do not share feature names",
}


class Session:
    """The counters and reports of a run, with the attributes of `training.session.Session`."""

    def __init__(self, learner: Learner, labels: Labels) -> None:
        self.learner, self.labels = learner, labels
        self.progress = Progress(pass_start=learner.loss_sums, last_line=learner.loss_sums)
        self.lines: list[Line] = []
        self.passes: list[Pass] = []
        self.tally = metrics.tally(learner.loss, learner.n_outputs)
        self.best: dict[str, Array] = {}  # the state of the best pass
        self.mean_loss = math.nan  # of this pass

    def count(self, reports: tuple[LaneReport, ...]) -> None:
        """Add the counts of the lanes."""
        for lane in reports:
            for name, (places, values) in (lane.counts or {}).items():
                self.tally.arrays[name].reshape(-1)[places] += values

    def line(self, round_rows: int, every: int, last: tuple[Any, Any, int], sums: tuple[float, float]) -> Line | None:
        """Return a line if one is due within the rows of the finished round, given the sums of loss and weight."""
        if report.next_line(self.progress.rows - round_rows, every) > self.progress.rows:
            return None
        label, scores, features = last
        before, self.progress.last_line = self.progress.last_line, sums
        made = Line(
            number=self.progress.number + 1,
            rows=self.progress.rows,
            mean_loss=self.mean_loss,
            since_last=heldout.mean(sums, before),
            label=float(label),
            prediction=self.shown(report.prediction(self.learner.loss, scores)),
            features=features,
            nonzeros=self.learner.count_nonzero(),
        )
        self.lines.append(made)
        return made

    def shown(self, prediction: float) -> float:
        """Return a prediction as it is shown: the label instead of the number of the class."""
        return self.labels.classes[int(prediction)] if self.learner.n_outputs > 1 else prediction

    def end_pass(self, held_out: tuple[float, float]) -> Pass:
        """Record the finished pass, given the sums of loss and weight over held-out rows."""
        facts = self.progress
        ended = Pass(facts.number + 1, facts.rows, self.mean_loss, heldout.mean(held_out))
        self.passes.append(ended)
        if heldout.is_best(self.passes):
            facts.best_pass = facts.number
        facts.number, facts.rows = facts.number + 1, 0
        facts.pass_start = facts.last_line = (0.0, 0.0)
        return ended

    def arrays(self) -> dict[str, Array]:
        """Return the arrays of the session except those of the learner, without copying."""
        found = {f"tally.{name}": array for name, array in self.tally.arrays.items()}
        return found | {f"best.{name}": array for name, array in self.best.items()}

    def record(self) -> dict[str, Any]:
        """Return the numbers of the session except the progress of the run, as JSON values."""
        facts = self.progress
        return {
            "number": facts.number,
            "rows": facts.rows,
            "best_pass": facts.best_pass,
            "mean_loss": self.mean_loss,
            "pass_start": list(facts.pass_start),
            "last_line": list(facts.last_line),
            "lines": [plain(line) for line in self.lines],
            "passes": [plain(one) for one in self.passes],
        }

    def restore(self, record: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Restore a checkpoint."""
        self.progress.number, self.progress.rows, self.mean_loss = record["number"], record["rows"], record["mean_loss"]
        self.progress.best_pass = record["best_pass"]
        self.progress.pass_start = (record["pass_start"][0], record["pass_start"][1])
        self.progress.last_line = (record["last_line"][0], record["last_line"][1])
        self.lines = [Line(*floats(line)) for line in record["lines"]]
        self.passes = [Pass(*floats(one)) for one in record["passes"]]
        metrics.restore(self.tally, under("tally.", arrays))
        self.best = under("best.", arrays)


class ClusterRun:
    """One training run on a cluster.

    Parameters
    ----------
    config : TrainConfig
    learner : Learner
        New, or one to continue from.
    watch : Watch
    client : Client
    rows : int, optional
        Rows per round; None as for `DaskStreamClassifier`.
    """

    def __init__(self, config: TrainConfig, learner: Learner, watch: Watch, client: Client, rows: int | None) -> None:
        self.config, self.watch = config, watch
        self.parts = _parts(config)
        self.stream = self  # has `n_bytes`
        self.n_bytes = _size([part.data.path for part in self.parts.parts])
        if learner.t == 0:
            learner = config.learner(self.parts.n_features or 1)
        self.session = Session(learner, config.labels())
        self.resumed = self.finished = False
        everything = list(range(len(self.parts)))
        lanes = choose_lanes(client, None, len(self.parts))
        self._held_out = config.holdout_file is not None
        plan = Plan(
            lanes,
            choose_rows(rows, lanes, learner.n_features),
            [everything] * config.passes,
            fresh=learner.t == 0,
            tally=True,
            held_out=config.held_out_share,
            settled=self._held_out or config.early_stop > 0 or config.quarantine is not None,
        )
        self.checkpoints = CheckpointStore(
            f"{config.output}.ckpt", {**_plain(config.settings()), "files": list(config.data)}
        )
        progress = RunProgress()
        checkpoint = self.checkpoints.find() if config.resume else None
        if checkpoint is not None:
            plan = replace(checkpoint.plan, held_out=plan.held_out, settled=plan.settled)
            progress, self.resumed = checkpoint.progress, True
            learner.load_state_dict(checkpoint.arrays)
            self.session.restore(checkpoint.record, checkpoint.extra)
        self._quarantine = None
        if config.quarantine is not None:
            self._quarantine = Quarantine(config.quarantine, checkpoint.record["quarantine"] if checkpoint else ())
        self._plan, self._stopped, self._ended = plan, False, False
        encode = FileLabels(config.labels(), config.on_error != "stop")
        self.rounds = Rounds(
            client,
            self.parts,
            learner,
            learner_settings(learner),
            encode,
            plan,
            on_round=self._after_round,
            on_reports=self._write_bad_rows if self._quarantine is not None else None,
            on_pass=self._after_pass,
            needs_state=self._needs_state,
            progress=progress,
        )
        self._count(progress)

    def __call__(self) -> None:
        """Run to the end and write the model."""
        from ..models import file as modelfile

        self.watch.on_start(self)  # type: ignore[arg-type]
        self.rounds()
        if self._stopped and not self._ended:
            raise Interrupted
        if self.session.best:
            self.session.learner.load_state_dict(self.session.best)
        check_finite(self.session.learner, "the merged state of the lanes")
        modelfile.save(self.model(), self.config.output, weights_only=self.config.weights_only)
        self.checkpoints.clear()
        if self._quarantine is not None:
            self._quarantine.finish()

    def stop(self) -> None:
        """Stop the run between two rounds; called by a signal handler."""
        self._stopped = True
        self.rounds.stop()

    def save_checkpoint(self) -> None:
        """Write a checkpoint now."""
        session, record = self.session, self.session.record()
        record["quarantine"] = self._quarantine.segments if self._quarantine is not None else []
        self.checkpoints.save(session.learner, self._plan, self.rounds.progress, record, session.arrays())

    def _count(self, progress: RunProgress) -> None:
        facts = self.session.progress
        facts.all_rows, facts.n_bytes = progress.rows, progress.n_bytes
        facts.zeros, facts.negatives = progress.zeros, progress.negatives
        facts.bad_labels = progress.bad_labels

    def _after_round(self, ended: Round, reports: tuple[LaneReport, ...]) -> None:
        session = self.session
        self._count(self.rounds.progress)
        session.count(reports)
        session.progress.rows += ended.rows
        positions = self.rounds.progress.positions
        sums = self.rounds.losses
        if session.progress.number > 0:
            sums = sum(at.relearned_loss for at in positions), sum(at.relearned_weight for at in positions)
        session.mean_loss = heldout.mean(sums, session.progress.pass_start)
        last = next(one.last for one in reports[::-1] if one.last)
        line = session.line(ended.rows, self.config.progress_every, last, sums)
        if line is not None:
            self.watch.on_line(line, self)  # type: ignore[arg-type]
        if self.config.checkpoint:
            self.save_checkpoint()
        self.watch.on_chunk(self)  # type: ignore[arg-type]

    def _write_bad_rows(self, reports: tuple[LaneReport, ...]) -> None:
        assert self._quarantine is not None
        for lane in reports:
            for part, start, text in lane.bad:
                self._quarantine.add(lane.lane + part * self._plan.lanes, start, text)

    def _needs_state(self, low: int, high: int) -> bool:
        """Return whether a line or a checkpoint may be due, both of which need the state."""
        return bool(self.config.checkpoint) or report.next_line(low, self.config.progress_every) <= high

    def _after_pass(self) -> bool:
        session, progress, patience = self.session, self.rounds.progress, self.config.early_stop
        if session.progress.number > progress.number:  # already reported
            return not self._ended
        self._count(progress)
        if not session.progress.all_rows:
            more = f", {self.skipped:,} skipped" if self.skipped else ""
            raise ValueError(f"{', '.join(self.config.data)}: no rows to learn from{more}")
        sums = [(at.loss, at.weight) for at in progress.positions]
        held_out = self._file_losses() if self._held_out else (sum(a for a, _ in sums), sum(b for _, b in sums))
        ended = session.end_pass(held_out)
        self.watch.on_pass(ended, self)  # type: ignore[arg-type]
        if patience and session.progress.best_pass == ended.number - 1:
            session.best = session.learner.state_dict()
        waited = ended.number - 1 - session.progress.best_pass
        self._ended = ended.number == self.config.passes or 0 < patience <= waited
        if self._quarantine is not None and not self._ended:
            self._quarantine.start_pass()
        return not self._ended

    def _file_losses(self) -> tuple[float, float]:
        """Return the sums of loss and weight over the rows of a file."""
        config, labels, skip = self.config, self.session.labels, self.config.on_error != "stop"
        features = config.features if self.parts.features is None else self.parts.features
        with open_stream([config.holdout_file], config.format, features=features, **config.holdout_options()) as stream:
            rows = ((labels.read_chunk(chunk, stream.names, skip=skip).rows, None) for chunk in stream.chunks())
            return heldout.total_losses(self.session.learner, rows)

    @property
    def skipped(self) -> int:
        """Skipped rows: bad rows of a pass, and rows with labels that only workers have checked, of all passes."""
        return self.rounds.progress.skipped + self.session.progress.bad_labels

    def model(self) -> Model:
        """Return the model."""
        config, facts = self.config, self.session.progress
        return Model(
            self.session.learner,
            classes=config.labels().observed_classes(zeros=facts.zeros, negatives=facts.negatives),
            features=None if self.parts.features is None else self.parts.features.to_json(),
            reading={"zero_based": config.zero_based},
            history=[*map(report.as_record, self.session.lines), *map(report.as_record, self.session.passes)],
            summary={**self.summary, "options": config.command_line(), "lanes": self._plan.lanes},
        )

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The results of the run."""
        session, learner = self.session, self.session.learner
        facts: dict[str, Any] = {
            "rows": session.progress.all_rows,
            "skipped": self.skipped,
            "passes": len(session.passes),
            "progressive_loss": session.passes[0].mean_loss,
        }
        if session.progress.zeros and session.progress.negatives and session.labels.default:
            facts["negative_labels"] = [-1, 0]
        best = session.tally.best_constant()
        if best is not None:
            value = best.value if learner.n_outputs > 1 else report.prediction(learner.loss, best.value)
            facts |= {"best_constant": session.shown(value), "best_constant_loss": best.loss}
        facts |= session.tally.facts()
        facts |= heldout.summary(session.passes, bool(self.config.early_stop))
        return facts | {"nonzeros": learner.count_nonzero(), "weights": learner.n_features * learner.n_outputs}


def _parts(config: TrainConfig) -> Partitions:
    """Return the files; with a quarantine, workers collect bad rows, and reading the head here does not."""
    reading = {name: value for name, value in config.stream_options().items() if name != "quarantine"}
    if config.quarantine is None:
        return make_partitions(list(config.data), format=config.format, features=config.features, **reading)
    reading["on_error"] = "skip"
    found = make_partitions(list(config.data), format=config.format, features=config.features, **reading)
    quarantining = (
        replace(part, data=replace(part.data, reading={**part.data.reading, "on_error": "quarantine"}))
        for part in found.parts
    )
    return replace(found, parts=tuple(quarantining))


def _size(paths: list[str]) -> int | None:
    """Return the size of local files in bytes, None if some are not local."""
    return sum(map(os.path.getsize, paths)) if all(map(os.path.isfile, paths)) else None


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value if isinstance(value, (str, int, float, bool)) else repr(value) for name, value in settings.items()
    }
