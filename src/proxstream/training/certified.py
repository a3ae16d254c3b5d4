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
        self.penalty = parsing.penalty_from_options(config.l1, config.l2, config.penalty)
        self.labels = config.labels()
        if self.labels.n_outputs > 1 and self.labels.loss.kind != "multiclass":
            raise ValueError(
                f"--algorithm certified: {config.loss} is a loss of two classes; use softmax or multiclass_hinge"
            )
        one = RowBlock(np.array([0, 1]), np.array([0]), np.ones(1), np.ones(1))
        dispatch.choose(self._problem(one), self.parameters["solver"])  # raises before any data is read
        self.rows: RowBlock | None = None
        self.held_out_rows: RowBlock | None = None
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
            self.rows = _joined(self._blocks())
            if self.config.holdout_file is not None:
                self.held_out_rows = _joined(self._blocks_of_file(self.config.holdout_file))
        share = self.config.held_out_share
        if self.rows is not None and share:
            out = holdout.held_out_rows(share, 0, self.rows.n_rows)
            self.held_out_rows = self.rows.take(np.flatnonzero(out))
            self.rows = self.rows.take(np.flatnonzero(~out))
        if self.rows is None:
            raise NoRowsError(f"{', '.join(self.stream.names)}: no rows to learn from")

    def _blocks(self) -> Iterator[RowBlock]:
        for chunk in self.stream.chunks():
            labelled = self.labels.read_chunk(chunk, self.stream.names, skip=self.config.skip_bad_rows)
            self.bad_labels += chunk.rows.n_rows - labelled.rows.n_rows
            self.n_bytes += chunk.n_bytes
            self._zeros = self._zeros or bool((chunk.rows.y == 0.0).any())
            self._negatives = self._negatives or bool((chunk.rows.y == -1.0).any())
            yield labelled.rows

    def _blocks_of_file(self, path: str) -> Iterator[RowBlock]:
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
                yield self.labels.read_chunk(chunk, stream.names, skip=config.skip_bad_rows).rows

    def _problem(self, rows: RowBlock, n_features: int = 1) -> Problem:
        labels = self.labels
        width = max(rows.n_features, n_features)
        return Problem(rows, width, labels.loss, self.penalty, self.config.intercept, labels.n_outputs)

    def solve(self) -> Solution:
        """Solve the problem; a TypeError if no solver supports the loss and the penalty."""
        assert self.rows is not None
        features = self.stream.used_featurizer
        hashed = 1 if features is None or features.spec.bits is None else 1 << features.spec.bits
        problem = self._problem(self.rows, hashed)
        self.solution = dispatch.solve(problem, **self.parameters, seed=self.config.seed, n_threads=self.config.threads)
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
        if self.held_out_rows is None:
            return {}
        return holdout.Measures(self._weights).add_rows([(self.held_out_rows, None)]).facts()

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
        solution, config, featurizer = self.solution, self.config, self.stream.used_featurizer
        assert solution is not None
        return Model(
            self._weights,
            classes=self.labels.observed_classes(zeros=self._zeros, negatives=self._negatives),
            features=None if featurizer is None else featurizer.spec.to_json(),
            names={} if featurizer is None else featurizer.arrays(),
            reading={"zero_based": config.zero_based},
            history=[
                {name: value for name, value in record._asdict().items() if name != "seconds"}
                for record in solution.history
            ],
            summary={**self.summary(), "options": config.command_line()},
        )


def _joined(blocks: Iterator[RowBlock]) -> RowBlock | None:
    """Return all blocks as one, None if there are none."""
    found = list(blocks)
    return RowBlock.concat(found) if found else None
