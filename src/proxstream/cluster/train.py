"""`proxstream train --cluster`: a training run from its configuration to its model file, in lanes on a cluster.

It reports what `training.run.Run` reports and writes the same model file. Lines of the progress table are at the ends
of rounds: the first one after each number of rows at which a line is due. The last row shown is that of the last lane.

Rows are held out by their number in their own file, where a single stream counts through all files, so that they are
the same rows for any number of lanes. After each pass workers read the files again and predict them with the merged
state. A separate held-out file is read by the client.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from distributed import Client

from ..core.validation import Array
from ..data.rowblock import RowBlock
from ..io import open_stream
from ..io.features.spec import FeatureSpec
from ..learner.divergence import check_finite
from ..learner.learner import Learner
from ..training import report
from ..training.base_session import NoRowsError
from ..training.checkpoint import CheckpointStore
from ..training.config import TrainConfig
from ..training.learners import make_path_learner
from ..training.run import BaseRun, Watch
from ..training.session import Interrupted
from .checkpoint import KIND, record_rounds, restore_rounds
from .first_rows import settle_scale, settle_strengths
from .held_out import HeldOutTask, measure_files
from .labels import FileLabels
from .lane_reader import Quarantine
from .lanes import LaneReport
from .partitions import Partitions, make_partitions
from .rounds import Rounds
from .schedule import Plan, Round, RunProgress, choose_lanes, choose_rows, learner_settings
from .sessions import LanePathSession, LaneSession

# Options that need a single stream.
REFUSED = {
    "pairs": "the rows of a query must be in one stream",
    "average": "averaged weights cannot be merged",
    "names": "workers do not share feature names",
    "shuffle_buffer": "lanes read their files in order; shuffle the files",
}


class ClusterRun(BaseRun):
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

    session: LaneSession

    def __init__(self, config: TrainConfig, learner: Learner, watch: Watch, client: Client, rows: int | None) -> None:
        super().__init__(config, watch)
        self.parts = _parts(config)
        self.names, self.formats = config.data, [part.data.format for part in self.parts.parts]
        self.n_bytes = _size([part.data.path for part in self.parts.parts])
        lanes, fresh = choose_lanes(client, None, len(self.parts)), learner.t == 0
        plan = Plan(
            lanes,
            choose_rows(rows, lanes, (self.parts.n_features or 1) if fresh else learner.n_features),
            [list(range(len(self.parts)))] * config.passes,
            fresh=fresh,
            tally=True,
            held_out=config.held_out_share,
            settled=config.holds_out or config.quarantine is not None,
        )
        labels = FileLabels(config.labels(), config.skip_bad_rows)
        settings = {**config.settings(), "files": list(config.data)}
        self.checkpoints = CheckpointStore(f"{config.output}.ckpt", settings, KIND)
        progress, segments = RunProgress(), ()
        checkpoint = self.checkpoints.find() if config.resume else None
        if fresh:
            strengths = None if checkpoint is None else checkpoint[0].get("strengths")
            learner = self._new_learner(client, labels, plan, strengths)
        settle_scale(client, self.parts, learner, labels, plan)
        kind = LanePathSession if config.is_path else LaneSession
        self.session = kind(learner, config.labels(), config.plan(), **self._reports())  # type: ignore[arg-type]
        if checkpoint is not None:
            header, arrays = checkpoint
            found, progress = restore_rounds(header["rounds"])
            plan = replace(found, held_out=plan.held_out, settled=plan.settled)
            segments, self.resumed = header["quarantine"], True
            self.session.restore(header["session"], arrays)
        self._quarantine = None if config.quarantine is None else Quarantine(config.quarantine, segments)
        self._stopped = False
        self.rounds = Rounds(
            client,
            self.parts,
            learner,
            learner_settings(learner),
            labels,
            plan,
            on_round=self._after_round,
            on_reports=self._write_bad_rows if self._quarantine is not None else None,
            on_pass=self._after_pass,
            needs_state=self._needs_state,
            progress=progress,
        )
        self.session.start(self.rounds)

    def _new_learner(self, client: Client, labels: FileLabels, plan: Plan, strengths: Any) -> Learner:
        """Return a new learner, of the strengths of a checkpoint if there are any."""
        config, n_features = self.config, self.parts.n_features or 1
        if not config.is_path:
            return config.learner(n_features)
        if isinstance(config.l1, tuple):
            strengths = config.l1
        elif strengths is None:
            strengths = settle_strengths(client, self.parts, config, labels, plan)
        if strengths is None:
            raise NoRowsError(f"{', '.join(self.names)}: no rows to learn from")
        return make_path_learner(config, strengths, n_features)

    def __call__(self) -> None:
        """Run to the end and write the model."""
        super().__call__()
        if self._quarantine is not None:
            self._quarantine.finish()

    def _learn(self) -> None:
        self.rounds()
        if self._stopped and not self.session.progress.done:
            raise Interrupted
        for model in self.session.models():
            check_finite(model, "the merged state of the lanes")
        if isinstance(self.session, LanePathSession):
            self.remark = self.session.choose(self.config.choice)

    def stop(self) -> None:
        """Stop the run between two rounds; called by a signal handler."""
        self._stopped = True
        self.rounds.stop()

    def _position(self) -> tuple[dict[str, Any], dict[str, Array]]:
        segments = [] if self._quarantine is None else self._quarantine.segments
        header = {"rounds": record_rounds(self.rounds.plan, self.rounds.progress), "quarantine": segments}
        strengths = getattr(self.rounds.learner, "strengths", None)
        return header if strengths is None else {**header, "strengths": strengths.tolist()}, {}

    def _after_round(self, ended: Round, reports: tuple[LaneReport, ...]) -> None:
        self.session.end_round(ended.rows, reports)
        if self.config.checkpoint:
            self.save_checkpoint()
        self.watch.on_chunk(self)

    def _write_bad_rows(self, reports: tuple[LaneReport, ...]) -> None:
        assert self._quarantine is not None
        for lane in reports:
            for part, start, text in lane.bad:
                self._quarantine.add(lane.lane + part * self.rounds.plan.lanes, start, text)

    def _needs_state(self, low: int, high: int) -> bool:
        """Return whether a line or a checkpoint may be due, both of which need the state."""
        return bool(self.config.checkpoint) or report.next_line(low, self.config.progress_every) <= high

    def _after_pass(self) -> bool:
        """End the pass, unless that was done already; return whether to continue."""
        session, lanes = self.session, self.rounds.progress
        if session.progress.number == lanes.number and not session.progress.done:
            session.update_progress()
            session.end_pass(self._measure_held_out() if session.progress.rows else None)
            if self._quarantine is not None and not session.progress.done:
                self._quarantine.start_pass()
        return not session.progress.done

    def _measure_held_out(self) -> dict[str, float] | None:
        """Return the measures of rows held out, in the files or in a separate one."""
        config, learner = self.config, self.session.learner
        if config.held_out_share:
            labels = FileLabels(config.labels(), config.skip_bad_rows)
            task = HeldOutTask(config.held_out_share, learner_settings(learner), labels)
            files = [part.data for part in self.parts.parts]
            return self.session.keep_measures(measure_files(self.rounds.client, files, task, learner))
        if config.holdout_file is None:
            return None
        features = config.features if self.parts.features is None else self.parts.features
        with open_stream([config.holdout_file], config.format, features=features, **config.holdout_options()) as stream:
            return self.session.measure(stream.chunks(), stream.names)

    @property
    def skipped(self) -> int:
        """Skipped rows: bad rows of a pass, and rows with labels that only workers have checked, of all passes."""
        return self.rounds.progress.skipped + self.session.progress.bad_labels

    def _features_and_names(self) -> tuple[FeatureSpec | None, dict[str, Array]]:
        return self.parts.features, dict(self.parts.columns)

    def _reports(self) -> dict[str, Any]:
        return {**super()._reports(), "standardize": self._standardize}

    def _standardize(self, rows: RowBlock, learn: bool) -> RowBlock:
        """Return rows of a held-out file with standardized numbers."""
        columns = self.parts.parts[0].data.columns
        return rows if columns is None else columns.transform(rows, learn=False, dtype=self.session.learner.dtype)

    def _origin(self) -> dict[str, Any]:
        return {"lanes": self.rounds.plan.lanes}


def _parts(config: TrainConfig) -> Partitions:
    """Return the files; with a quarantine, workers collect bad rows, and reading the head here does not."""
    reading = {name: value for name, value in config.stream_options().items() if name != "quarantine"}
    reading["fixed_statistics"] = config.initial_names.get("statistics", True)
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
