"""`proxstream train --cluster`: a training run from its order to its model file, learned in lanes on a cluster.

It shows what `training.run.Run` shows and writes the same model file. Lines of the table stand at the ends of rounds:
the first behind each number of rows at which a line is due. Its last row is that of the lane told last.

Rows are held out by their number in their own file, where one stream counts through all files: so they are the same
rows whatever the lanes. Each is predicted where it stands, by what its lane knows then, as the rows are that the lane
learns. A file that is held out is read by the client, after each pass, with the state that all lanes have come to.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from distributed import Client

from .._checks import Array
from ..estimators.rows import Batch
from ..learner import Learner
from ..model import Model
from ..streams import open_stream
from ..training import heldout, metrics, report
from ..training.labels import Labels
from ..training.order import Order
from ..training.report import Line, Pass
from ..training.run import Watch
from ..training.session import Facts, Interrupted, floats, plain, under
from .checkpoint import Keeper
from .estimator import lanes_of, rows_of, settings_of
from .lanes import Told
from .parts import Parts, parts_of
from .plan import Plan, Round, Standing
from .quarantine import Quarantine
from .rounds import Rounds

# What only one stream can do.
REFUSED = {
    "pairs": "a ranker's queries lie in one stream",
    "average": "means of the weights do not add",
    "names": "workers do not share the names they meet",
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

    def __init__(self, learner: Learner, labels: Labels) -> None:
        self.learner, self.labels = learner, labels
        self.facts = Facts(pass_began=learner.loss_sums, last_line=learner.loss_sums)
        self.lines: list[Line] = []
        self.passes: list[Pass] = []
        self.tally = metrics.tally(learner.loss, learner.n_outputs)
        self.best: dict[str, Array] = {}  # the state of the best pass
        self.mean_loss = math.nan  # of this pass

    def count(self, told: tuple[Told, ...]) -> None:
        """Take in what lanes counted, in their order."""
        for lane in told:
            for name, (places, values) in (lane.counts or {}).items():
                self.tally.arrays[name].reshape(-1)[places] += values

    def line(self, round_rows: int, every: int, last: tuple[Any, Any, int], sums: tuple[float, float]) -> Line | None:
        """Return a line if one is due within the rows of the round that has ended, with sums of loss and weight."""
        if report.next_told(self.facts.rows - round_rows, every) > self.facts.rows:
            return None
        label, scores, features = last
        before, self.facts.last_line = self.facts.last_line, sums
        made = Line(
            number=self.facts.number + 1,
            rows=self.facts.rows,
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
        """Return a prediction as it is told: of several classes the label in place of its number."""
        return self.labels.classes[int(prediction)] if self.learner.n_outputs > 1 else prediction

    def end_pass(self, held_out: tuple[float, float]) -> Pass:
        """Enter the pass that has ended, with the sums of loss and weight over rows held out."""
        facts = self.facts
        ended = Pass(facts.number + 1, facts.rows, self.mean_loss, heldout.mean(held_out))
        self.passes.append(ended)
        if heldout.is_best(self.passes):
            facts.best_pass = facts.number
        facts.number, facts.rows = facts.number + 1, 0
        facts.pass_began = facts.last_line = (0.0, 0.0)
        return ended

    def arrays(self) -> dict[str, Array]:
        """Return the arrays that the session remembers beside those of the learner, not copied."""
        found = {f"tally.{name}": array for name, array in self.tally.arrays.items()}
        return found | {f"best.{name}": array for name, array in self.best.items()}

    def record(self) -> dict[str, Any]:
        """Return the numbers that the session remembers beside a run's standing, as JSON knows them."""
        facts = self.facts
        return {
            "number": facts.number,
            "rows": facts.rows,
            "best_pass": facts.best_pass,
            "mean_loss": self.mean_loss,
            "pass_began": list(facts.pass_began),
            "last_line": list(facts.last_line),
            "lines": [plain(line) for line in self.lines],
            "passes": [plain(one) for one in self.passes],
        }

    def restore(self, record: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Go on from what was kept."""
        self.facts.number, self.facts.rows, self.mean_loss = record["number"], record["rows"], record["mean_loss"]
        self.facts.best_pass = record["best_pass"]
        self.facts.pass_began = (record["pass_began"][0], record["pass_began"][1])
        self.facts.last_line = (record["last_line"][0], record["last_line"][1])
        self.lines = [Line(*floats(line)) for line in record["lines"]]
        self.passes = [Pass(*floats(one)) for one in record["passes"]]
        metrics.restore(self.tally, under("tally.", arrays))
        self.best = under("best.", arrays)


class ClusterRun:
    """One run of an order on a cluster.

    Parameters
    ----------
    order : Order
    learner : Learner
        As the order makes it, or one that goes on.
    watch : Watch
    client : Client
    rows : int, optional
        Rows a round; None is as of `DaskStreamClassifier`.
    """

    def __init__(self, order: Order, learner: Learner, watch: Watch, client: Client, rows: int | None) -> None:
        self.order, self.watch = order, watch
        self.parts = _parts(order)
        self.stream = self  # who knows the bytes to be read
        self.n_bytes = _size([part.data.path for part in self.parts.parts])
        if learner.t == 0:
            learner = order.learner(self.parts.n_features or 1)
        self.session = Session(learner, order.labels())
        self.resumed = self.finished = False
        everything = list(range(len(self.parts)))
        lanes = lanes_of(client, None, len(self.parts))
        self._held_out = bool(order.holdout) and order.share() is None  # a file of its own
        plan = Plan(
            lanes,
            rows_of(rows, lanes, learner.n_features),
            [everything] * order.passes,
            fresh=learner.t == 0,
            tally=True,
            held_out=order.share() or Fraction(0),
            settled=self._held_out or order.early_stop > 0 or order.quarantine is not None,
        )
        self.keeper = Keeper(f"{order.output}.ckpt", {**_plain(order.settings()), "files": list(order.data)})
        standing = Standing()
        kept = self.keeper.find() if order.resume else None
        if kept is not None:
            plan = replace(kept.plan, held_out=plan.held_out, settled=plan.settled)
            standing, self.resumed = kept.standing, True
            learner.load_state_dict(kept.arrays)
            self.session.restore(kept.record, kept.more)
        self._quarantine = None
        if order.quarantine is not None:
            self._quarantine = Quarantine(order.quarantine, kept.record["quarantine"] if kept else ())
        self._plan, self._stopped, self._ended = plan, False, False
        labelled = FileLabels(order.labels(), order.on_error != "stop")
        self.rounds = Rounds(
            client,
            self.parts,
            learner,
            settings_of(learner),
            labelled,
            plan,
            on_round=self._after_round,
            on_told=self._quarantined if self._quarantine is not None else None,
            on_pass=self._after_pass,
            wants=self._wants,
            standing=standing,
        )
        self._count(standing)

    def __call__(self) -> None:
        """Run to the end and write the model."""
        from .. import modelfile

        self.watch.started(self)  # type: ignore[arg-type]
        self.rounds()
        if self._stopped and not self._ended:
            raise Interrupted
        if self.session.best:
            self.session.learner.load_state_dict(self.session.best)
        modelfile.save(self.model(), self.order.output, weights_only=self.order.weights_only)
        self.keeper.clear()
        if self._quarantine is not None:
            self._quarantine.finish()

    def stop(self) -> None:
        """Ask the run to stop between two rounds, from a signal handler."""
        self._stopped = True
        self.rounds.stop()

    def keep(self) -> None:
        """Write a checkpoint now."""
        session, record = self.session, self.session.record()
        record["quarantine"] = self._quarantine.segments if self._quarantine is not None else []
        self.keeper.keep(session.learner, self._plan, self.rounds.standing, record, session.arrays())

    def _count(self, standing: Standing) -> None:
        facts = self.session.facts
        facts.all_rows, facts.n_bytes = standing.rows, standing.n_bytes
        facts.zeros, facts.negatives = standing.zeros, standing.negatives
        facts.bad_labels = standing.bad_labels

    def _after_round(self, ended: Round, told: tuple[Told, ...]) -> None:
        session = self.session
        self._count(self.rounds.standing)
        session.count(told)
        session.facts.rows += ended.rows
        places = self.rounds.standing.places
        sums = self.rounds.losses
        if session.facts.number > 0:
            sums = sum(place.again_loss for place in places), sum(place.again_weight for place in places)
        session.mean_loss = heldout.mean(sums, session.facts.pass_began)
        last = next(one.last for one in told[::-1] if one.last)
        line = session.line(ended.rows, self.order.progress_every, last, sums)
        if line is not None:
            self.watch.line(line, self)  # type: ignore[arg-type]
        if self.order.checkpoint:
            self.keep()
        self.watch.moved(self)  # type: ignore[arg-type]

    def _quarantined(self, told: tuple[Told, ...]) -> None:
        assert self._quarantine is not None
        for lane in told:
            for part, start, text in lane.bad:
                self._quarantine.take(lane.lane + part * self._plan.lanes, start, text)

    def _wants(self, low: int, high: int) -> bool:
        """Tell that a line or a checkpoint may be due, for both of which the state is looked at."""
        return bool(self.order.checkpoint) or report.next_told(low, self.order.progress_every) <= high

    def _after_pass(self) -> bool:
        session, standing, patience = self.session, self.rounds.standing, self.order.early_stop
        if session.facts.number > standing.number:  # told before
            return not self._ended
        self._count(standing)
        if not session.facts.all_rows:
            more = f", {self.skipped:,} skipped" if self.skipped else ""
            raise ValueError(f"{', '.join(self.order.data)}: no rows to learn from{more}")
        sums = [(place.loss, place.weight) for place in standing.places]
        held_out = self._file_losses() if self._held_out else (sum(a for a, _ in sums), sum(b for _, b in sums))
        ended = session.end_pass(held_out)
        self.watch.passed(ended, self)  # type: ignore[arg-type]
        if patience and session.facts.best_pass == ended.number - 1:
            session.best = session.learner.state_dict()
        waited = ended.number - 1 - session.facts.best_pass
        self._ended = ended.number == self.order.passes or 0 < patience <= waited
        if self._quarantine is not None and not self._ended:
            self._quarantine.begin()
        return not self._ended

    def _file_losses(self) -> tuple[float, float]:
        """Return the sums of loss and weight over the rows of a file."""
        order, labels, skip = self.order, self.session.labels, self.order.on_error != "stop"
        features = order.features if self.parts.features is None else self.parts.features
        with open_stream([order.holdout], order.format, features=features, **order.reading_held_out()) as stream:
            rows = ((labels.read_chunk(chunk, stream.names, skip=skip).rows, None) for chunk in stream.chunks())
            return heldout.losses_of(self.session.learner, rows)

    @property
    def skipped(self) -> int:
        """Rows left out: bad ones of a pass, and those with labels that no stream has looked at, of all passes."""
        return self.rounds.standing.skipped + self.session.facts.bad_labels

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
        session, learner = self.session, self.session.learner
        facts: dict[str, Any] = {
            "rows": session.facts.all_rows,
            "skipped": self.skipped,
            "passes": len(session.passes),
            "progressive_loss": session.passes[0].mean_loss,
        }
        if session.facts.zeros and session.facts.negatives and session.labels.usual:
            facts["negative_labels"] = [-1, 0]
        best = session.tally.best_constant()
        if best is not None:
            value = best.value if learner.n_outputs > 1 else report.prediction(learner.loss, best.value)
            facts |= {"best_constant": session.shown(value), "best_constant_loss": best.loss}
        facts |= session.tally.facts()
        facts |= heldout.summary(session.passes, bool(self.order.early_stop))
        return facts | {"nonzeros": learner.count_nonzero(), "weights": learner.n_features * learner.n_outputs}


def _parts(order: Order) -> Parts:
    """Return the files; where bad rows are kept, workers keep them, and the head that is read here does not."""
    reading = {name: value for name, value in order.reading().items() if name != "quarantine"}
    if order.quarantine is None:
        return parts_of(list(order.data), format=order.format, features=order.features, **reading)
    reading["on_error"] = "skip"
    found = parts_of(list(order.data), format=order.format, features=order.features, **reading)
    keeping = (
        replace(part, data=replace(part.data, reading={**part.data.reading, "on_error": "quarantine"}))
        for part in found.parts
    )
    return replace(found, parts=tuple(keeping))


def _size(paths: list[str]) -> int | None:
    """Return the bytes of local files, None where some are elsewhere."""
    return sum(map(os.path.getsize, paths)) if all(map(os.path.isfile, paths)) else None


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value if isinstance(value, (str, int, float, bool)) else repr(value) for name, value in settings.items()
    }
