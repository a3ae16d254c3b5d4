"""`--algorithm certified`: all rows in memory, the fastest batch solver, and a proven bound on the suboptimality."""

from __future__ import annotations

from collections.abc import Iterator
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
from ..models.model import Model, Weights
from .config import TrainConfig
from .labels import Labelled
from .session import NoRowsError


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
        self._offsets = np.zeros(3)  # of rows with an offset, sums over c, c times factor, c times constant
        one = RowBlock(np.array([0, 1]), np.array([0]), np.ones(1), np.ones(1))
        dispatch.choose(self._problem(one), self.parameters["solver"])  # raises before any data is read
        self.rows: RowBlock | None = None
        self.solution: Solution | None = None
        self.stream: Any = None
        self.bad_labels = self.n_bytes = 0
        self._zeros = self._negatives = False

    def open(self) -> None:
        """Open the data."""
        config = self.config
        self.stream = open_stream(list(config.data), config.format, features=config.features, **config.stream_options())

    def read(self) -> None:
        """Read all rows into memory."""
        with self.stream:
            blocks = list(self._blocks())
            self.rows = RowBlock.concat(blocks) if blocks else None
        if self.rows is None:
            raise NoRowsError(f"{', '.join(self.stream.names)}: no rows to learn from")

    def _blocks(self) -> Iterator[RowBlock]:
        for chunk in self.stream.chunks():
            labelled = self.labels.read_chunk(chunk, self.stream.names, skip=self.config.skip_bad_rows)
            self.bad_labels += chunk.rows.n_rows - labelled.rows.n_rows
            self.n_bytes += chunk.n_bytes
            self._zeros = self._zeros or bool((chunk.rows.y == 0.0).any())
            self._negatives = self._negatives or bool((chunk.rows.y == -1.0).any())
            yield labelled.rows if chunk.offset is None else self._without_offset(labelled, chunk.offset)

    def _without_offset(self, labelled: Labelled, offset: Array) -> RowBlock:
        """Return rows that need no offset, and add up what turns their objective into that of the rows given."""
        rows, taken = labelled.rows, labelled.take(offset)
        assert taken is not None
        without, c = absorbed(self.labels.loss, rows.y, taken), rows.weights()
        self._offsets += [c.sum(), np.sum(c * without.factors), np.sum(c * without.constants)]
        return rows._replace(y=without.y, c=c * without.factors)

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
        }

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
        coef = solution.coef.astype(config.dtype, copy=False)
        return Model(
            Weights(coef, self._intercept(coef), self.labels.loss, self.penalty, config.intercept),
            classes=self.labels.observed_classes(zeros=self._zeros, negatives=self._negatives),
            features=None if featurizer is None else featurizer.spec.to_json(),
            names={} if featurizer is None else featurizer.names.arrays(),
            reading={"zero_based": config.zero_based},
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
