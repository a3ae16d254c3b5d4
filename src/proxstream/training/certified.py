"""`--algorithm certified`: all rows in memory, the fastest batch solver, and a proven bound on the suboptimality.

Held-out rows are those that a stream would hold out; the model that is written predicts them after it was solved.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from ..batch import dispatch
from ..batch.centring import frame_of
from ..batch.problem import Problem, Solution
from ..core import parsing
from ..core.validation import Array
from ..data.offsets import absorbed
from ..data.rowblock import RowBlock
from ..io import open_stream
from ..io.formats import NUMBERED
from ..models.model import Model, Weights
from . import holdout
from .base_session import NoRowsError
from .config import TrainConfig


class CertifiedRun:
    """One run: `open` the data, `read` the rows, `solve`, return the `model`."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        defaults = parsing.parameters("certified")
        parsing.check_parameters("certified", config.parameters)
        self.parameters = defaults | {
            name: parsing.parse_option(name, text, defaults[name]) for name, text in config.parameters.items()
        }
        self.penalty = parsing.penalty_from_options(config.one_strength, config.l2, config.penalty)
        self.labels = config.labels()
        if self.labels.n_outputs > 1 and self.labels.loss.kind != "multiclass":
            raise ValueError(
                f"--algorithm certified: {config.loss} is a loss of two classes; use softmax or multiclass_hinge"
            )
        self._offsets = np.zeros(3)  # of rows with an offset, sums over c, c times factor, c times constant
        one = RowBlock(np.array([0, 1]), np.array([0]), np.ones(1), np.ones(1))
        dispatch.choose(self._problem(one), self.parameters["solver"])  # raises before any data is read
        self.rows: RowBlock | None = None
        self.held_out: tuple[RowBlock, Array | None] | None = None  # rows, and what is added to their scores
        self.solution: Solution | None = None
        self.stream: Any = None
        self.bad_labels = self.n_bytes = 0
        self._zeros = self._negatives = False

    def open(self) -> None:
        """Open the data."""
        config = self.config
        self.stream = open_stream(list(config.data), config.format, features=config.features, **config.stream_options())

    def read(self) -> None:
        """Read all rows into memory, and those to be held out."""
        with self.stream:
            found = _joined(self._blocks())
            if self.config.holdout_file is not None:
                self.held_out = _joined(self._blocks_of_file(self.config.holdout_file))
        if found is None:
            raise NoRowsError(f"{', '.join(self.stream.names)}: no rows to learn from")
        share = self.config.held_out_share
        if share:
            out = holdout.held_out_rows(share, 0, found[0].n_rows)
            found, self.held_out = _taken(found, ~out), _taken(found, out)
        rows, offset = found
        self.rows = rows if offset is None else self._without_offset(rows, offset)

    def _blocks(self) -> Iterator[tuple[RowBlock, Array | None]]:
        for chunk in self.stream.chunks():
            labelled = self.labels.read_chunk(chunk, self.stream.names, skip=self.config.skip_bad_rows)
            self.bad_labels += chunk.rows.n_rows - labelled.rows.n_rows
            self.n_bytes += chunk.n_bytes
            self._zeros = self._zeros or bool((chunk.rows.y == 0.0).any())
            self._negatives = self._negatives or bool((chunk.rows.y == -1.0).any())
            yield labelled.rows, labelled.take(chunk.offset)

    def _without_offset(self, rows: RowBlock, offset: Array) -> RowBlock:
        """Return rows that need no offset, and add up what turns their objective into that of the rows given."""
        without, c = absorbed(self.labels.loss, rows.y, offset), rows.weights()
        self._offsets += [c.sum(), np.sum(c * without.factors), np.sum(c * without.constants)]
        return rows._replace(y=without.y, c=c * without.factors)

    def _blocks_of_file(self, path: str) -> Iterator[tuple[RowBlock, Array | None]]:
        """Read a held-out file; names that the data do not have are no features."""
        from ..io.features.featurizer import Featurizer

        config = self.config
        features: Any = config.features
        if not set(self.stream.formats) <= NUMBERED:
            known = self.stream.featurizer
            features = Featurizer(known.spec, known.dtype, growing=False)
            features.restore(known.arrays())
        with open_stream([path], config.format, features=features, **config.holdout_options()) as stream:
            for chunk in stream.chunks():
                labelled = self.labels.read_chunk(chunk, stream.names, skip=config.skip_bad_rows)
                yield labelled.rows, labelled.take(chunk.offset)

    def _problem(self, rows: RowBlock, n_features: int = 1) -> Problem:
        labels = self.labels
        width = max(rows.n_features, n_features)
        factor, _ = self._scale()
        penalty = self.penalty if factor == 1.0 else self.penalty.scaled(1.0 / factor)
        return Problem(rows, width, labels.loss, penalty, self.config.intercept, labels.n_outputs)

    def _scale(self) -> tuple[float, float]:
        """Return f and k with which the objective given is f times the solved one, plus k; Psi is divided by f."""
        weight, scaled, constant = self._offsets.tolist()
        return (scaled / weight, constant / weight) if weight > 0.0 else (1.0, 0.0)

    def solve(self) -> Solution:
        """Solve the problem; a TypeError if no solver supports the loss and the penalty."""
        assert self.rows is not None
        features = self.stream.used_featurizer
        hashed = 1 if features is None or features.spec.bits is None else 1 << features.spec.bits
        problem = self._problem(self.rows, hashed)
        found = dispatch.solve(problem, **self.parameters, seed=self.config.seed, n_threads=self.config.threads)
        self.solution = _rescaled(found, *self._scale())
        return self.solution

    def summary(self) -> dict[str, Any]:
        """Return the result in numbers."""
        solution, rows = self.solution, self.rows
        assert solution is not None
        assert rows is not None
        gap = solution.primal - solution.dual
        size = max(abs(solution.primal), abs(solution.dual))
        return {
            "rows": rows.n_rows,
            "skipped": self.stream.skipped + self.bad_labels,
            "primal": solution.primal,
            "dual": solution.dual,
            "gap": gap,
            "relative_gap": gap / size if size else 0.0,
            "converged": solution.converged,
            "epochs": solution.history[-1].epoch,
            "nonzeros": int(np.count_nonzero(solution.coef)),
            "weights": solution.coef.size,
            **self._held_out,
        }

    @cached_property
    def _held_out(self) -> dict[str, float]:
        """The measures of held-out rows; empty without any."""
        if self.held_out is None:
            return {}
        rows, offset = self.held_out
        return holdout.Measures(self._weights).add_rows([(rows, None, offset)]).facts()

    @cached_property
    def _weights(self) -> Weights:
        """The weights of the model."""
        solution, config = self.solution, self.config
        assert solution is not None
        coef = solution.coef.astype(config.dtype, copy=False)
        return Weights(coef, self._intercept(coef), self.labels.loss, self.penalty, config.intercept)

    def _intercept(self, coef: Array) -> Any:
        """Return the intercept for weights rounded to 32 bits, which matters for columns far from zero."""
        solution, rows = self.solution, self.rows
        assert solution is not None
        assert rows is not None
        frame = frame_of(rows, self.labels.loss) if self.config.intercept else None
        if frame is None or coef.dtype == np.float64:
            return solution.intercept
        return frame.outward(coef.astype(np.float64), frame.inward(solution.coef, solution.intercept))

    def model(self) -> Model:
        """Return the model; it does not depend on the clock or the machine."""
        solution, rows, config, featurizer = self.solution, self.rows, self.config, self.stream.used_featurizer
        assert solution is not None
        assert rows is not None
        return Model(
            self._weights,
            classes=self.labels.observed_classes(zeros=self._zeros, negatives=self._negatives),
            features=None if featurizer is None else featurizer.spec.to_json(),
            names={} if featurizer is None else featurizer.names.arrays(),
            reading=config.reading(self.stream.formats, index_zero=bool((rows.indices == 0).any())),
            history=[
                {name: value for name, value in record._asdict().items() if name != "seconds"}
                for record in solution.history
            ],
            summary={**self.summary(), "options": config.command_line()},
        )


def _rescaled(solution: Solution, f: float, k: float) -> Solution:
    """Return a solution whose objectives are multiplied by f, plus k."""
    if (f, k) == (1.0, 0.0):
        return solution
    history = [
        record._replace(primal=primal, dual=dual, gap=primal - dual)
        for record in solution.history
        for primal, dual in [(f * record.primal + k, f * record.dual + k)]
    ]
    return solution._replace(history=history)


def _joined(blocks: Iterator[tuple[RowBlock, Array | None]]) -> tuple[RowBlock, Array | None] | None:
    """Return all blocks and their offsets as one, None if there are none."""
    found = list(blocks)
    if not found:
        return None
    several, offsets = zip(*found, strict=True)
    return RowBlock.concat(list(several)), None if offsets[0] is None else np.concatenate(offsets)


def _taken(found: tuple[RowBlock, Array | None], which: Array) -> tuple[RowBlock, Array | None]:
    """Return the rows, and their offsets, for which `which` is True."""
    rows, offset = found
    return rows.take(np.flatnonzero(which)), None if offset is None else offset[which]
