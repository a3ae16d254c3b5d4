"""`--algorithm certified`: all rows in memory, the fastest batch solver, and a proof of how good the weights are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import losses
from ..batch import certified
from ..batch.problem import Problem, Solution
from ..blocks import NO_WEIGHTS, RowBlock
from ..model import Model, Weights
from ..streams import open_stream
from . import recipe
from .labels import Labels
from .order import Order
from .session import NoRowsError


class CertifiedRun:
    """One run: `open` the data, `read` the rows, `solve`, and take the `model`."""

    def __init__(self, order: Order) -> None:
        self.order = order
        usual = recipe.parameters("certified")
        recipe.check_known("certified", order.parameters)
        self.parameters = usual | {
            name: recipe.value(name, text, usual[name]) for name, text in order.parameters.items()
        }
        self.penalty = recipe.together(order.l1, order.l2, order.penalty)
        self.labels = Labels(losses.get(order.loss), order.classes, order.class_weight)
        if self.labels.n_outputs > 1 and self.labels.loss.kind != "multiclass":
            raise ValueError(f"certified: {order.loss} has two classes; with more take softmax or multiclass_hinge")
        one = RowBlock(np.array([0, 1]), np.array([0]), np.ones(1), np.ones(1))
        certified.choose(self._problem(one), self.parameters["solver"])  # refused before anything is read
        self.rows: RowBlock | None = None
        self.solution: Solution | None = None
        self.stream: Any = None
        self.bad_labels = self.n_bytes = 0
        self._zeros = self._negatives = False

    def open(self) -> None:
        """Open the data."""
        order = self.order
        self.stream = open_stream(list(order.data), order.format, features=order.features, **order.reading())

    def read(self) -> None:
        """Read all rows into memory."""
        with self.stream:
            self.rows = _together(list(self._blocks()))
        if self.rows is None:
            raise NoRowsError(f"{', '.join(self.stream.names)}: no rows to learn from")

    def _blocks(self) -> Iterator[RowBlock]:
        for chunk in self.stream.chunks():
            read = self.labels.read_chunk(chunk, self.stream.names, skip=self.order.on_error != "stop")
            self.bad_labels += chunk.rows.n_rows - read.rows.n_rows
            self.n_bytes += chunk.n_bytes
            self._zeros = self._zeros or bool((chunk.rows.y == 0.0).any())
            self._negatives = self._negatives or bool((chunk.rows.y == -1.0).any())
            yield read.rows

    def _problem(self, rows: RowBlock, n_features: int = 1) -> Problem:
        labels = self.labels
        width = max(rows.n_features, n_features)
        return Problem(rows, width, labels.loss, self.penalty, self.order.intercept, labels.n_outputs)

    def solve(self) -> Solution:
        """Solve the problem; a loss and a penalty that no solver takes are a TypeError."""
        assert self.rows is not None
        features = self.stream.used_featurizer
        hashed = 1 if features is None or features.spec.bits is None else 1 << features.spec.bits
        problem = self._problem(self.rows, hashed)
        self.solution = certified.solve(problem, **self.parameters, seed=self.order.seed, n_threads=self.order.threads)
        return self.solution

    def summary(self) -> dict[str, Any]:
        """Return how it ended, in numbers."""
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

    def model(self) -> Model:
        """Return the weights with what their rows mean; nothing in it depends on the clock or the machine."""
        solution, order, featurizer = self.solution, self.order, self.stream.used_featurizer
        assert solution is not None
        coef = solution.coef.astype(order.dtype, copy=False)
        return Model(
            Weights(coef, solution.intercept, self.labels.loss, self.penalty, order.intercept),
            classes=self.labels.seen(zeros=self._zeros, negatives=self._negatives),
            features=None if featurizer is None else featurizer.spec.to_json(),
            names={} if featurizer is None else featurizer.arrays(),
            reading={"zero_based": order.zero_based},
            history=[
                {name: value for name, value in record._asdict().items() if name != "seconds"}
                for record in solution.history
            ],
            summary={**self.summary(), "options": order.words()},
        )


def _together(blocks: list[RowBlock]) -> RowBlock | None:
    """Return all rows as one block."""
    if not blocks:
        return None
    weighted = any(len(block.c) for block in blocks)
    ends = np.cumsum([0, *(int(block.indptr[-1] - block.indptr[0]) for block in blocks)])
    steps = [block.indptr[1:] - block.indptr[0] + end for block, end in zip(blocks, ends[:-1], strict=True)]
    cells = [slice(int(block.indptr[0]), int(block.indptr[-1])) for block in blocks]
    return RowBlock(
        np.concatenate(([0], *steps)),
        np.concatenate([block.indices[cut] for block, cut in zip(blocks, cells, strict=True)]),
        np.concatenate([block.data[cut] for block, cut in zip(blocks, cells, strict=True)]),
        np.concatenate([block.y for block in blocks]),
        np.concatenate([b.c if len(b.c) else np.ones(b.n_rows) for b in blocks]) if weighted else NO_WEIGHTS,
    )
