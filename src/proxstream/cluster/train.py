"""`proxstream train --cluster`: a training run from its order to its model file, learned in lanes on a cluster.

It shows what `training.run.Run` shows and writes the same model file. Lines of the table stand at the ends of rounds:
the first behind each number of rows at which a line is due. Its last row is that of the lane told last.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from distributed import Client

from ..estimators.rows import Batch
from ..learner import Learner
from ..model import Model
from ..training import report
from ..training.labels import Labels
from ..training.order import Order
from ..training.report import Line, Pass
from ..training.run import Watch
from ..training.session import Facts, Interrupted
from .checkpoint import Keeper
from .estimator import lanes_of, rows_of, settings_of
from .lanes import Told
from .parts import parts_of
from .rounds import Plan, Round, Rounds, Standing

# What only one stream can do.
REFUSED = {
    "holdout": "rows held out are chosen in the order of one stream",
    "early_stop": "it needs rows held out",
    "initial": "partial_fit of a DaskStreamClassifier goes on from a model",
    "pairs": "a ranker's queries lie in one stream",
    "average": "means of the weights do not add",
    "names": "workers do not share the names they meet",
    "quarantine": "workers do not share a file of bad rows",
}


@dataclass(frozen=True)
class FileLabels:
    """Reads labels of files on workers."""

    labels: Labels
    skip: bool

    def __call__(self, batch: Batch) -> Batch:
        """Return a batch with labels as the loss knows them."""
        rows = self.labels.read(batch.X._replace(y=batch.y, c=batch.c), skip=self.skip).rows
        return Batch(rows, rows.y, rows.c)


class Session:
    """What a run tells of itself while it goes, by the names of `training.session.Session`."""

    def __init__(self, learner: Learner, passes: int) -> None:
        self.learner, self.facts = learner, Facts()
        self.lines: list[Line] = []
        self.passes: list[Pass] = []
        self._began = self._last = (0.0, 0.0)

    @property
    def mean_loss(self) -> float:
        """The mean loss of predictions made before their rows were first learned."""
        return self.learner.progressive_loss

    def line(self, round_rows: int, every: int, last: tuple[Any, Any, int]) -> Line | None:
        """Return a line if one is due within the rows of the round that has ended."""
        if report.next_told(self.facts.rows - round_rows, every) > self.facts.rows:
            return None
        label, scores, features = last
        sums, before = self.learner.loss_sums, self._last
        since = (sums[0] - before[0]) / (sums[1] - before[1]) if sums[1] > before[1] else math.nan
        self._last = sums
        made = Line(
            number=self.facts.number + 1,
            rows=self.facts.rows,
            mean_loss=self.mean_loss,
            since_last=since,
            label=float(label),
            prediction=report.prediction(self.learner.loss, scores),
            features=features,
            nonzeros=self.learner.count_nonzero(),
        )
        self.lines.append(made)
        return made


class ClusterRun:
    """One run of an order on a cluster.

    Parameters
    ----------
    order : Order
    watch : Watch
    client : Client
    rows : int, optional
        Rows a round; None is as of `DaskStreamClassifier`.
    """

    def __init__(self, order: Order, watch: Watch, client: Client, rows: int | None) -> None:
        self.order, self.watch = order, watch
        reading = {name: value for name, value in order.reading().items() if name not in ("labels", "quarantine")}
        self.parts = parts_of(list(order.data), format=order.format, features=order.features, **reading)
        self.stream = self  # who knows the bytes to be read
        self.n_bytes = _size([part.data.path for part in self.parts.parts])
        learner = order.learner(self.parts.n_features or 1)
        self.session = Session(learner, order.passes)
        self.resumed = self.finished = False
        everything = list(range(len(self.parts)))
        lanes = lanes_of(client, None, len(self.parts))
        plan = Plan(lanes, rows_of(rows, lanes, learner.n_features), [everything] * order.passes)
        self.keeper = Keeper(f"{order.output}.ckpt", {**_plain(order.settings()), "files": list(order.data)})
        standing = Standing()
        kept = self.keeper.find() if order.resume else None
        if kept is not None:
            plan, standing, self.resumed = kept.plan, kept.standing, True
            learner.load_state_dict(kept.arrays)
        self._plan, self._stopped = plan, False
        labelled = FileLabels(order.labels(), order.on_error != "stop")
        self.rounds = Rounds(
            client,
            self.parts,
            learner,
            settings_of(learner),
            labelled,
            plan,
            on_round=self._after_round,
            wants=self._wants,
            standing=standing,
        )
        self._count(standing)

    def __call__(self) -> None:
        """Run to the end and write the model."""
        from .. import modelfile

        self.watch.started(self)  # type: ignore[arg-type]
        self.rounds()
        if self._stopped:
            raise Interrupted
        if not self.session.facts.all_rows:
            raise ValueError(f"{', '.join(self.order.data)}: no rows to learn from")
        self._end_pass(self.order.passes)
        modelfile.save(self.model(), self.order.output, weights_only=self.order.weights_only)
        self.keeper.clear()

    def stop(self) -> None:
        """Ask the run to stop between two rounds, from a signal handler."""
        self._stopped = True
        self.rounds.stop()

    def keep(self) -> None:
        """Write a checkpoint now."""
        self.keeper.keep(self.session.learner, self._plan, self.rounds.standing)

    def _count(self, standing: Standing) -> None:
        facts = self.session.facts
        facts.all_rows, facts.n_bytes = standing.rows, standing.n_bytes
        facts.zeros, facts.negatives = standing.zeros, standing.negatives

    def _after_round(self, ended: Round, told: tuple[Told, ...]) -> None:
        session, number = self.session, self.rounds.standing.number
        if number > session.facts.number:
            self._end_pass(number)
        self._count(self.rounds.standing)
        session.facts.rows += ended.rows
        line = session.line(ended.rows, self.order.progress_every, next(one.last for one in told[::-1] if one.last))
        if line is not None:
            self.watch.line(line, self)  # type: ignore[arg-type]
        if self.order.checkpoint:
            self.keep()
        self.watch.moved(self)  # type: ignore[arg-type]

    def _wants(self, low: int, high: int) -> bool:
        """Tell that a line or a checkpoint may be due, for both of which the state is looked at."""
        return bool(self.order.checkpoint) or report.next_told(low, self.order.progress_every) <= high

    def _end_pass(self, number: int) -> None:
        session = self.session
        ended = Pass(number, session.facts.rows, session.mean_loss, math.nan)
        session.passes.append(ended)
        session.facts.number, session.facts.rows = number, 0
        self.watch.passed(ended, self)  # type: ignore[arg-type]

    def model(self) -> Model:
        """Return the model."""
        order, facts = self.order, self.session.facts
        return Model(
            self.session.learner,
            classes=order.labels().seen(zeros=facts.zeros, negatives=facts.negatives),
            features=None if self.parts.features is None else self.parts.features.to_json(),
            reading={"zero_based": order.zero_based},
            history=[*map(report.record, self.session.lines), *map(report.record, self.session.passes)],
            summary={**self.summary, "options": order.words(), "lanes": self._plan.lanes},
        )

    @cached_property
    def summary(self) -> dict[str, Any]:
        """How the run ended, in numbers."""
        learner = self.session.learner
        return {
            "rows": self.session.facts.all_rows,
            "skipped": 0,
            "passes": len(self.session.passes),
            "progressive_loss": learner.progressive_loss,
            "nonzeros": learner.count_nonzero(),
            "weights": learner.n_features * learner.n_outputs,
        }


def _size(paths: list[str]) -> int | None:
    """Return the bytes of local files, None where some are elsewhere."""
    return sum(map(os.path.getsize, paths)) if all(map(os.path.isfile, paths)) else None


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value if isinstance(value, (str, int, float, bool)) else repr(value) for name, value in settings.items()
    }
