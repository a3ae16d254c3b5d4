"""Learner: one model and the engine that moves it. Estimators, the command line and clusters all wrap this.

A learner takes row blocks and nothing else. It picks the engine that can run its algorithm, loss and penalty (a
compiled one wherever a closed form over idle rounds exists), checks each block before anything is touched, and keeps
the running loss of predictions made before each row was learned.

    block -> check -> engine.learn -> scores -> progressive loss

With ranking=True rows come with the qid of their query, and what the engine learns are pairs of a query's rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy.sparse import csr_array

from . import _checks, losses, penalties
from ._checks import Array
from .algorithms import Algorithm
from .blocks import RowBlock
from .losses import Loss
from .penalties import Penalty

if TYPE_CHECKING:
    from .engines.ranking import RankingEngine


class Engine(Protocol):
    """What keeps a model's numbers; see `proxstream.engines`."""

    @property
    def n_features(self) -> int: ...  # noqa: D102
    @property
    def t(self) -> int: ...  # noqa: D102
    @property
    def k(self) -> float: ...  # noqa: D102
    def learn(self, rows: RowBlock, n_threads: int = 1) -> Array: ...  # noqa: D102
    def predict(self, rows: RowBlock) -> Array: ...  # noqa: D102
    def weights(self) -> tuple[Array, Any]: ...  # noqa: D102
    def averages(self) -> tuple[Array, Any]: ...  # noqa: D102
    def grow(self, n_features: int) -> None: ...  # noqa: D102
    def arrays(self) -> dict[str, Array]: ...  # noqa: D102
    def restore(self, arrays: Mapping[str, Array]) -> None: ...  # noqa: D102


class Learner:
    """A linear model that learns row blocks as they come.

    Parameters
    ----------
    algorithm : Algorithm
    loss : str or Loss
    penalty : Penalty, optional
    n_features : int
        Features to begin with; a block with more is refused unless `growing`.
    n_outputs : int
        Classes of a multiclass loss; with a binary loss and more than one output, one model a class.
    dtype : float32 or float64
        Of the state.
    fit_intercept : bool
    average : bool
        Keep the mean of the weights played, and predict with it.
    growing : bool
        Let new features enlarge the model.
    n_threads : int
        More than one: lock-free threads, faster and not reproducible bit for bit.
    ranking : bool
        Learn the order of each query's rows, from pairs of them: see `proxstream.engines.ranking`. There is no
        intercept then: it cancels in every pair.
    pairs : int, optional
        When ranking, partners drawn for each row; None takes all.
    seed : int
        When ranking, where the draws begin.

    Examples
    --------
    >>> import numpy as np, proxstream as ps
    >>> from proxstream.blocks import as_block
    >>> learner = Learner(ps.FTRLProximal(alpha=1.0), "logistic", ps.L1(0.01), n_features=2)
    >>> scores = learner.learn(as_block(np.array([[1.0, 0.0], [1.0, 0.0]]), y=[1, 1]))
    >>> scores.round(3)
    array([0.  , 0.66])
    """

    def __init__(
        self,
        algorithm: Algorithm,
        loss: Loss | str = "logistic",
        penalty: Penalty | None = None,
        *,
        n_features: int = 0,
        n_outputs: int = 1,
        dtype: Any = np.float64,
        fit_intercept: bool = True,
        average: bool = False,
        growing: bool = False,
        n_threads: int = 1,
        ranking: bool = False,
        pairs: int | None = None,
        seed: int = 0,
    ) -> None:
        self.algorithm = algorithm
        self.loss = losses.get(loss)
        self.penalty = penalties.get(penalty)
        self.n_outputs, self.dtype = n_outputs, np.dtype(dtype)
        self.fit_intercept, self.average, self.growing = fit_intercept and not ranking, average, growing
        self.n_threads = _checks.integer("n_threads", n_threads, low=1)
        self.engine = _engine(self, n_features)
        self._queries: RankingEngine | None = None
        if ranking:
            from .engines.ranking import RankingEngine

            self._queries = RankingEngine(self.engine, pairs, seed)
        self._losses = np.zeros(2)  # sums of c * loss and of c

    @property
    def n_features(self) -> int:
        """Features that have a weight."""
        return self.engine.n_features

    @property
    def t(self) -> int:
        """Rows learned."""
        return self.engine.t

    @property
    def progressive_loss(self) -> float:
        """The mean loss of predictions made before their rows were learned; NaN before the first row."""
        return float(self._losses[0] / self._losses[1]) if self._losses[1] > 0.0 else float("nan")

    def learn(self, rows: RowBlock, qid: Any = None, *, count: bool = True) -> Array:
        """Learn the rows in order; return the scores before each was learned. A refused block changes nothing.

        Parameters
        ----------
        rows : RowBlock
        qid : one integer a row
            For a ranker, whose scores are those of pairs.
        count : bool
            Let the rows count in the progressive loss, as they should unless they have been learned before.
        """
        self._check(rows)
        if self._queries is not None:
            qid = _checked_qid(qid, rows.n_rows)
            self.engine.grow(rows.n_features)
            return self._queries.learn(rows, qid, self.n_threads, each=self._count if count else None)
        self.engine.grow(rows.n_features)
        scores = self.engine.learn(rows, self.n_threads)
        if count:
            self._count(scores, rows)
        return scores

    def end_query(self) -> None:
        """Let the next row of a ranker begin a query, whatever its qid."""
        if self._queries is not None:
            self._queries.end_query()

    def _count(self, scores: Array, rows: RowBlock) -> None:
        """Take the losses of these scores into the progressive loss."""
        suffered = self._suffered(scores, rows.y)
        weights = rows.c if len(rows.c) else np.ones(len(suffered))
        # Cumulated in order, so that the sums do not depend on how the stream was cut.
        for i, terms in enumerate((weights * suffered, weights)):
            self._losses[i] = np.cumsum(np.concatenate((self._losses[i : i + 1], terms)))[-1]

    def predict(self, rows: RowBlock) -> Array:
        """Return the scores of the rows; features that the model does not know count 0."""
        if not self.average:
            return self.engine.predict(rows)
        coefficients, intercept = self.weights()
        known = rows.indices < len(coefficients)
        data, indices = np.where(known, rows.data, 0), np.where(known, rows.indices, 0)
        matrix = csr_array((data, indices, rows.indptr), shape=(rows.n_rows, len(coefficients)))
        return np.asarray(matrix @ coefficients + intercept, dtype=np.float64)

    def weights(self) -> tuple[Array, Any]:
        """Return the coefficients, (features,) or (features, outputs), and the intercept; means with average=True."""
        return self.engine.averages() if self.average else self.engine.weights()

    def state_dict(self) -> dict[str, Array]:
        """Return everything that the learner remembers, as a dict of arrays."""
        return {**(self._queries or self.engine).arrays(), "losses": self._losses}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on, bit for bit, from the state of a learner with the same settings."""
        (self._queries or self.engine).restore(saved)
        self._losses = np.array(saved["losses"])

    def _check(self, rows: RowBlock) -> None:
        if len(rows.y) != rows.n_rows or len(rows.c) not in (0, rows.n_rows):
            raise ValueError(f"a block of {rows.n_rows} rows needs as many labels, got {len(rows.y)}")
        if rows.n_features > self.n_features and not self.growing:
            raise ValueError(f"a feature index must be < {self.n_features}, got {rows.n_features - 1}")
        if not np.isfinite(rows.data).all():
            row = int(np.searchsorted(rows.indptr, np.flatnonzero(~np.isfinite(rows.data))[0], side="right")) - 1
            raise ValueError(f"features must be finite, got NaN or infinity in row {row} of the block")
        if len(rows.c) and not (np.isfinite(rows.c).all() and (rows.c >= 0.0).all()):
            raise ValueError("weights must be finite and >= 0")
        if self._queries is not None:
            _checks.vector("y", rows.y)  # relevance, any numbers
            return
        if self.loss.kind == "binary" and self.n_outputs > 1:
            return  # labels are classes, one-vs-rest
        self.loss.check_labels(rows.y)

    def _suffered(self, scores: Array, y: Array) -> Array:
        if self.loss.kind == "multiclass":
            return np.asarray(self.loss.value(scores, y.astype(np.int64)))
        if self.n_outputs > 1:
            signs = np.where(y[:, None] == np.arange(self.n_outputs), 1.0, -1.0)
            return np.asarray(np.sum(self.loss.value(scores, signs), axis=1))
        return np.asarray(self.loss.value(scores, y))


def _checked_qid(qid: Any, n_rows: int) -> Array:
    if qid is None:
        raise ValueError("a ranker needs the qid of each row")
    array = np.asarray(qid)
    if array.shape != (n_rows,) or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"qid must be one integer a row, {n_rows} in all, got {array.dtype} of shape {array.shape}")
    return array


def _engine(learner: Learner, n_features: int) -> Engine:
    """Return the engine that can run these settings: a compiled one wherever a row can cost its non-zeros alone."""
    from .engines.dense import DenseEngine
    from .engines.multiclass import MulticlassEngine
    from .engines.scalar import ScalarEngine
    from .kernels.multiclass_plan import multiclass_plan
    from .kernels.plan import plan

    parts = learner.algorithm, learner.penalty, learner.loss
    learner.algorithm.check(learner.penalty, (max(n_features, 1),) + (learner.n_outputs,) * (learner.n_outputs > 1))
    if learner.n_outputs > 1:
        several = multiclass_plan(*parts, learner.n_outputs, learner.dtype.type)
        if not isinstance(several, str) and not learner.average:
            return MulticlassEngine(several, n_features, learner.dtype, learner.fit_intercept)
        if learner.loss.kind != "multiclass":
            raise TypeError(f"one-vs-rest: {several if isinstance(several, str) else 'no means are kept'}")
    else:
        made = plan(*parts, learner.dtype.type)
        if not isinstance(made, str):
            return ScalarEngine(made, n_features, learner.dtype, learner.fit_intercept, learner.average)
    return DenseEngine(*parts, n_features=n_features, n_outputs=learner.n_outputs, fit_intercept=learner.fit_intercept)
