"""The engine of rankers: pairs of a query's rows, learned by the engine of models with one output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from ..core import validation as _checks
from ..core.records import NamedTuple
from ..core.validation import Array
from ..data.rowblock import NO_WEIGHTS, RowBlock
from . import _ranking as ranking
from .divergence import DivergedError
from .engine import Engine
from .state_checks import restored

Each = Callable[[Array, RowBlock], None]
_PLACES = ("indptr", "indices")


class OpenQuery(NamedTuple):
    """The random state, the rows and qid of the query that may continue, and the state before it."""

    seed: Array
    rows: RowBlock | None
    qid: Array | None
    before: dict[str, Array]


class RankingEngine:
    """Learns to order the rows of each query by relevance.

    A query is a run of rows with one qid. Two of its rows that differ in relevance are a pair: one row
    x_first - x_second, the more relevant one first, whose score is to be above 0 (by a margin of 1 under
    ranking_hinge). To the learner a pair is one row: it counts 1 in t and its weight in k, the weight being the
    geometric mean of its two rows' weights. Rows that find no partner leave the model as it is.

    Each row is paired with rows of its query that came before it: with all of them, or with at most `pairs`, sampled
    without replacement. So a query of m rows makes at most m (m - 1) / 2 or m times `pairs` pairs, and the model is a
    function of the rows and their order alone, wherever the stream is cut: inside a query, too. The rows of the query
    still open, and the generator's state, belong to what the engine remembers.

    A pair is scored before any pair of its query is learned, so that the scores are those of new queries: neighbouring
    pairs share a row, and a model that has learned one of them has seen half of the other. The state before the query
    that may continue is kept for the rows to come: it is copied once per block.

    To AutoFTRL all pairs are rows learned before, from which no rates are learned. Neighbouring pairs share a row and
    all pairs have the same label, so that slopes go on in one direction whether the stream drifts or not: rates learned
    from them rise to their bounds, and order new queries worse than the rates of the start do.

    Parameters
    ----------
    engine : Engine
        Of one output, made with fit_intercept=False: an intercept cancels in every pair.
    pairs : int, optional
        Partners sampled for each row; None takes all.
    seed : int
        Random seed.
    """

    def __init__(self, engine: Engine, pairs: int | None = None, seed: int = 0) -> None:
        self._engine = engine
        self._limit = -1 if pairs is None else _checks.integer("pairs", pairs, low=1, high=1 << 62)
        self._seed = np.array([_checks.integer("seed", seed, low=0, high=1 << 128) & ((1 << 63) - 1)])
        self._open: RowBlock | None = None
        self._qid: Array | None = None
        self._before: dict[str, Array] = {}  # the state before the open query

    @property
    def n_features(self) -> int:
        """Features that have a cell."""
        return self._engine.n_features

    @property
    def t(self) -> int:
        """Pairs learned."""
        return self._engine.t

    @property
    def k(self) -> float:
        """Penalty that has come in: the sum of the pairs' weights."""
        return self._engine.k

    def learn(self, rows: RowBlock, qid: Any, n_threads: int = 1, each: Each | None = None) -> Array:
        """Learn the pairs that these rows make; return each pair's score before any pair of its query was learned.

        Parameters
        ----------
        rows : RowBlock
            With the relevance in y: any numbers, the larger the better.
        qid : one integer per row
            Rows with the qid of the row before them belong to its query.
        each : function, optional
            Called after each block of pairs with their scores, and their labels and weights as rows without features.
        """
        qid = np.asarray(qid)
        if qid.shape != (rows.n_rows,) or not np.issubdtype(qid.dtype, np.integer):
            raise ValueError(f"qid must be one integer per row, {rows.n_rows}, got {qid.dtype} of shape {qid.shape}")
        if rows.n_rows == 0:
            return np.empty(0)
        rows = rows.sorted_indices(add_duplicates=True)
        known = 0 if self._open is None or self._qid is None or qid[0] != self._qid else self._open.n_rows
        if known and self._open is not None:
            opened = self._open.in_precision(rows.data.dtype)
            rows, qid = RowBlock.concat((opened, rows)), np.concatenate((np.full(known, qid[0]), qid))
        starts = np.flatnonzero(np.append(True, qid[1:] != qid[:-1]))
        first_rows = np.repeat(starts, np.diff(starts, append=rows.n_rows))
        last, room = int(starts[-1]), ranking.room(int(np.diff(rows.indptr).max()), rows)
        # The query that continues from the last block, those that are whole, and the last one, which may continue.
        edges = [0, *([int(starts[1])] if known and last else []), last, rows.n_rows]
        scores = []
        for first, stop in pairwise(sorted(set(edges))):
            learned = known if first == 0 else 0
            if stop == rows.n_rows and not learned:
                self._before = {name: array.copy() for name, array in self._engine.arrays().items()}
            part, queries = rows.slice(first, stop), first_rows[first:stop] - first
            try:
                scores += self._learn_queries(part, queries, learned, room, n_threads, each)
            except DivergedError as error:
                raise DivergedError(max(first + error.row - known, 0)) from None
        self._open, self._qid = rows.take(np.arange(last, rows.n_rows)), qid[-1:].astype(np.int64)
        return np.concatenate(scores) if scores else np.empty(0)

    def open_query(self) -> OpenQuery:
        """Return what this engine remembers beside the engine of the pairs."""
        return OpenQuery(self._seed.copy(), self._open, self._qid, self._before)

    def put_back(self, query: OpenQuery) -> None:
        """Return to what `open_query` returned."""
        self._seed, self._open, self._qid, self._before = query

    def end_query(self) -> None:
        """Let the next row start a query, whatever its qid."""
        self._open, self._qid, self._before = None, None, {}

    def _learn_queries(
        self, rows: RowBlock, starts: Array, learned: int, room: ranking.Pairs, n_threads: int, each: Each | None
    ) -> list[Array]:
        """Learn the pairs of queries whose first rows are `starts`; those of `learned` rows of the only one are known.

        The buffer has the rows of each query before its pairs, with weight 0: their scores are all that they bring.
        """
        of_rows, scores = np.empty(rows.n_rows), []
        if learned:
            with self._state_before():
                of_rows[:] = self._engine.learn(rows._replace(c=np.zeros(rows.n_rows)), repeated=True)
        room.cursor[:] = learned, -1, 0, 0
        while room.cursor[ranking.ROW] < rows.n_rows and (made := self._fill(rows, starts, room)):
            block = RowBlock(room.indptr, room.indices, room.data, np.ones(made), room.c[:made]).slice(0, made)
            one, two = room.first[:made], room.second[:made]
            try:
                found = self._engine.learn(block, n_threads, repeated=True)
            except DivergedError as error:
                raise DivergedError(int(max(one[error.row], two[error.row]))) from None
            are_pairs = one != two
            of_rows[one[~are_pairs]] = found[~are_pairs]
            scores.append(of_rows[one[are_pairs]] - of_rows[two[are_pairs]])
            if each is not None:
                each(
                    scores[-1],
                    _without_features(block, block.c[are_pairs] if len(rows.c) else NO_WEIGHTS, len(scores[-1])),
                )
        return scores

    def _fill(self, rows: RowBlock, starts: Array, room: ranking.Pairs) -> int:
        with np.errstate(over="ignore"):  # the generator counts modulo 2^64, also where it is interpreted
            return int(ranking.fill(rows, starts, self._limit, self._seed.view(np.uint64), room))

    @contextmanager
    def _state_before(self) -> Iterator[None]:
        """Put the engine in the state before the open query for a moment."""
        if not self._before:
            yield
            return
        now = {name: array.copy() for name, array in self._engine.arrays().items()}
        n_features = self._engine.n_features
        self._engine.restore(self._before)
        self._engine.grow(n_features)
        try:
            yield
        finally:
            self._engine.restore(now)

    def predict(self, rows: RowBlock) -> Array:
        """Return <w, x> of each row: the larger, the higher it ranks."""
        return self._engine.predict(rows)

    def weights(self) -> tuple[Array, float]:
        """Return all weights, and 0 in the intercept's place."""
        return self._engine.weights()

    def grow(self, n_features: int) -> None:
        """Make cells for more features; theirs are as if they had been there from the start."""
        self._engine.grow(n_features)

    def arrays(self) -> dict[str, Array]:
        """Return all that the engine remembers, the open query's rows among it."""
        arrays = {"seed": self._seed}
        if self._open is not None and self._qid is not None:
            arrays.update({"qid": self._qid, **self._open._asdict()})
            arrays.update({f"before.{name}": array for name, array in self._before.items()})
        return {**self._engine.arrays(), **{f"ranking.{name}": array for name, array in arrays.items()}}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Continue from what `arrays` returned; rows that do not fit together are refused."""
        own = {name.removeprefix("ranking."): np.array(a) for name, a in arrays.items() if name.startswith("ranking.")}
        qid = own.get("qid")
        if qid is None:
            new = restored({"seed": self._seed}, own, grows=())
        else:
            words = {name: np.empty(0, np.int64 if own[name].dtype == np.int64 else np.int32) for name in _PLACES}
            values = np.empty(0, np.float64 if own["data"].dtype == np.float64 else np.float32)
            plain = {"data": values, "y": np.empty(0), "c": np.empty(0)}
            expected = {"seed": self._seed, "qid": np.zeros(1, np.int64), **words, **plain}
            new = restored(expected, own, grows=RowBlock._fields)
            rows = RowBlock(*(new[name] for name in RowBlock._fields))
            width = rows.check()
            if len(rows.y) != rows.n_rows or len(rows.c) not in (0, rows.n_rows):
                raise ValueError(f"the open query of {rows.n_rows} rows must have as many labels, got {len(rows.y)}")
        before = {name.removeprefix("before."): array for name, array in own.items() if name.startswith("before.")}
        now = {name: array.copy() for name, array in self._engine.arrays().items()}
        try:
            if before:
                self._engine.restore(before)  # refused unless it is a state of this engine
            self._engine.restore({name: a for name, a in arrays.items() if not name.startswith("ranking.")})
            if qid is not None and width > (known := self._engine.n_features):
                raise ValueError(f"the open query has feature {width - 1}, the state has features 0..{known - 1}")
        except Exception:
            self._engine.restore(now)
            raise
        self._seed, self._open, self._qid = new["seed"], rows if qid is not None else None, new.get("qid")
        self._before = before


def _without_features(rows: RowBlock, c: Array, n: int) -> RowBlock:
    """Return n rows of the label 1 and no features, of the types of `rows`."""
    return RowBlock(np.zeros(n + 1, rows.indptr.dtype), rows.indices[:0], rows.data[:0], np.ones(n), c)
