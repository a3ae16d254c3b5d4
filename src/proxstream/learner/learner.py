"""Learner: one model and the engine that moves it. Estimators, the command line and clusters all wrap this.

A learner takes row blocks only. It picks the engine that can run its algorithm, loss and penalty (a compiled one
wherever a closed form over idle rounds exists), checks each block before changing anything, and keeps the running loss
of predictions made before each row was learned.

    block -> check -> engine.learn -> scores -> progressive loss

A block that takes the model beyond finite numbers is refused too, and its changes are undone.

With ranking=True rows come with the qid of their query, and the engine learns pairs of a query's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..core import losses, penalties, validation as _checks
from ..core.algorithms import Algorithm, AutoFTRL
from ..core.losses import Loss
from ..core.penalties import Penalty
from ..core.validation import Array
from ..data.measures import row_losses
from ..data.rowblock import RowBlock
from ..data.sums import add_in_order
from .frozen import FrozenEngine
from .scale_warning import is_too_large, loss_without_weights, warn_of_scale

if TYPE_CHECKING:
    from .engine import CompiledEngine, Engine
    from .layouts import Layout
    from .ranking import RankingEngine


class Learner:
    """A linear model that learns row blocks as they come.

    Parameters
    ----------
    algorithm : Algorithm
    loss : str or Loss
    penalty : Penalty, optional
    n_features : int
        Initial number of features; a block with more is refused unless `growing`.
    n_outputs : int
        Classes of a multiclass loss; with a binary loss and more than one output, one model per class.
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
        Learn the order of each query's rows, from pairs of them: see `proxstream.learner.ranking`. There is no
        intercept then: it cancels in every pair.
    pairs : int, optional
        When ranking, partners sampled for each row; None takes all.
    seed : int
        When ranking, the random seed.

    Examples
    --------
    >>> import numpy as np, proxstream as ps
    >>> from proxstream.data.rowblock import as_block
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
        if not isinstance(algorithm, Algorithm):
            raise TypeError(f"algorithm must be an Algorithm such as RDA(), got {algorithm!r}")
        self.algorithm = algorithm
        self.loss = losses.get(loss)
        self.penalty = penalties.get(penalty)
        self.n_outputs, self.dtype = _checks.integer("n_outputs", n_outputs, low=1), np.dtype(dtype)
        if self.loss.kind == "multiclass" and n_outputs == 1:
            raise ValueError(f"{self.loss} needs n_outputs >= 2, one per class, got 1")
        if self.dtype not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64, got {self.dtype}")
        self.fit_intercept, self.average, self.growing = fit_intercept and not ranking, average, growing
        self.n_threads = _checks.integer("n_threads", n_threads, low=1)
        self.pairs = pairs
        if ranking and isinstance(algorithm, AutoFTRL) and algorithm.scale == "auto":
            self.algorithm = replace(algorithm, scale="feature")  # pairs are no new rows, which the trial needs
        self.engine: Engine = self._new_engine(n_features)
        self._queries: RankingEngine | None = None
        if ranking:
            from .ranking import RankingEngine

            self._queries = RankingEngine(self.engine, pairs, seed)
        self._losses = np.zeros(2)  # sums of c * loss and of c
        self._without_weights = loss_without_weights(algorithm, self.loss, self.n_outputs)

    def _new_engine(self, n_features: int) -> Engine:
        return _engine(self, n_features)

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

    @property
    def ranking(self) -> bool:
        """Whether pairs of a query's rows are learned."""
        return self._queries is not None

    @property
    def loss_sums(self) -> tuple[float, float]:
        """The sums of weight times loss and of weight that the progressive loss is the quotient of."""
        loss, weight = self._losses
        return float(loss), float(weight)

    @loss_sums.setter
    def loss_sums(self, sums: tuple[float, float]) -> None:
        self._losses[:] = sums

    @property
    def loss_totals(self) -> Array:
        """All sums over losses, as an array: the sum of weight times loss, that of weight, and those of a subclass."""
        return self._losses.copy()

    @loss_totals.setter
    def loss_totals(self, totals: Array) -> None:
        self._losses = np.array(totals)

    def losses_since(self, before: Array, lanes: int) -> Array:
        """Return what rows with `lanes` times their weights have added to `loss_totals`, as of rows with their own."""
        return np.asarray((self._losses - before) / lanes)

    def count_nonzero(self, occurred: Array | None = None) -> int:
        """Return how many weights are not exactly zero.

        With the features that have occurred so far, no others are looked at if theirs are zero.
        """
        if self.average:
            return int(np.count_nonzero(self.weights()[0] != 0.0))
        return self.engine.count_nonzero(occurred)

    def learn(
        self,
        rows: RowBlock,
        qid: Any = None,
        *,
        n_features: int = 0,
        count: bool = True,
        undo: bool = True,
        repeated: bool = False,
    ) -> Array:
        """Learn the rows in order; return the scores before each was learned. A refused block changes nothing.

        Parameters
        ----------
        rows : RowBlock
        qid : one integer per row
            For a ranker, whose scores are those of pairs.
        n_features : int
            Features that the learner is to have at least.
        count : bool
            Whether the rows count in the progressive loss: not if they have been learned before.
        undo : bool
            Restore the model if it diverges. False saves the time of a copy where the learner is discarded after an
            error.
        repeated : bool
            Whether the rows have been learned before, in an earlier pass. Their predictions then say nothing about new
            rows, so AutoFTRL learns no rates from them; all other algorithms learn them like any others.

        Raises
        ------
        DivergedError
            At the first row where a score or a number of the model is not finite; a FloatingPointError.
        """
        needed, reach = self._check(rows)
        rows = rows.for_kernels()
        self._own_arrays()
        n_features = max(n_features, needed)
        if self._queries is not None:
            qid = _checked_qid(qid, rows.n_rows)
        before = self._before(rows, n_features) if undo else None
        try:
            self._grow(n_features, rows)
            if self._queries is not None:
                return self._queries.learn(rows, qid, self.n_threads, each=self._count if count else None)
            scores = self.engine.learn(rows, self.n_threads, reach, repeated=repeated)
            if count:
                self._count(scores, rows)
        except BaseException:
            if before is not None:
                before()
            raise
        return scores

    def _own_arrays(self) -> None:
        """Copy arrays that may not be written to: joblib hands large ones to its workers as memory-mapped files."""
        if self._losses.flags.writeable and all(array.flags.writeable for array in self._written()):
            return
        self.load_state_dict(self.state_dict())

    def _written(self) -> Iterator[Array]:
        return (value for part in (self.engine, self._queries) for value in arrays_of(part))

    @contextmanager
    def undo_on_error(self) -> Iterator[None]:
        """Restore the state if an error is raised, also where several blocks have changed it."""
        before = self.state_dict()
        try:
            yield
        except BaseException:
            self.load_state_dict(before)
            raise

    def _before(self, rows: RowBlock, n_features: int) -> Callable[[], None]:
        """Return a function that undoes what learning these rows does."""
        engine, queries, losses = self.engine, self._queries, self._losses.copy()
        indices = rows.indices[rows.indptr[0] : rows.indptr[-1]]
        query = None if queries is None else queries.open_query()
        if query is not None and query.rows is not None:
            indices = np.concatenate((indices, query.rows.indices))
        snapshot = engine.snapshot(rows, indices, grows=n_features > engine.n_features)

        def put_back() -> None:
            snapshot.put_back(engine)
            self._losses = losses
            if queries is not None and query is not None:
                queries.put_back(query)

        return put_back

    def _grow(self, n_features: int, rows: RowBlock) -> None:
        """Make room for the features of checked rows."""
        try:
            self.engine.grow(n_features)
        except MemoryError as error:
            at = int(np.argmax(rows.indices == n_features - 1))
            row = int(np.searchsorted(rows.indptr, at, side="right")) - 1
            raise MemoryError(
                f"the feature index {n_features - 1} in row {row} of the block needs more memory than there is, as "
                f"weights are kept for all features up to the largest index: {error}"
            ) from None

    @property
    def scale_ahead(self) -> Any:
        """The scale of AutoFTRL(scale="auto") that is ahead, or left; None where none are tried."""
        from .trial import TrialEngine

        return self.engine.scale if isinstance(self.engine, TrialEngine) else None

    def settle_scale(self, scale: str | None = None) -> None:
        """End a trial of AutoFTRL(scale="auto"): continue with this scale, or with the one ahead, alone."""
        from .trial import TrialEngine

        if isinstance(self.engine, TrialEngine):
            kept = self.engine.scale if scale is None else scale
            self.engine = self.engine.engine_of(kept)
            self.algorithm = replace(self.algorithm, scale=kept)

    def end_query(self) -> None:
        """Let the next row of a ranker start a query, whatever its qid."""
        if self._queries is not None:
            self._queries.end_query()

    def _count(self, scores: Array, rows: RowBlock) -> None:
        """Add the losses of these scores to the progressive loss, and warn once if it is out of all proportion."""
        self._add_losses(scores, rows)
        if is_too_large(self.progressive_loss, self.t, self._without_weights):
            warn_of_scale(self.algorithm, self.progressive_loss, self.t, self._without_weights)
            self._without_weights = 0.0

    def _add_losses(self, scores: Array, rows: RowBlock) -> None:
        if self.engine.loss_kernel is not None:
            from .hogwild import add_losses

            add_losses(self.engine.loss_kernel, scores, rows, self._losses, self.n_threads)
            return
        incurred = self.losses_of(scores, rows.y)
        weights = rows.weights()
        for i, terms in enumerate((weights * incurred, weights)):
            self._losses[i] = add_in_order(self._losses[i], terms)

    def predict(self, rows: RowBlock) -> Array:
        """Return the scores of the rows; features that the model does not know count 0."""
        rows.check()
        return rows.scores(*self.weights()) if self.average else self.engine.predict(rows.for_kernels())

    def weights(self) -> tuple[Array, Any]:
        """Return the coefficients, (features,) or (features, outputs), and the intercept; means with average=True."""
        return self.engine.averages() if self.average else self.engine.weights()

    def state_dict(self, *, copy: bool = True) -> dict[str, Array]:
        """Return everything that the learner remembers, as a dict of arrays; uncopied ones change as it learns."""
        arrays = {**(self._queries or self.engine).arrays(), "losses": self._losses}
        return {name: array.copy() for name, array in arrays.items()} if copy else arrays

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Continue, bit for bit, from the state of a learner with the same settings."""
        sums = np.array(saved["losses"], dtype=np.float64).reshape(2)
        (self._queries or self.engine).restore({name: saved[name] for name in saved if name != "losses"})
        self._losses = sums

    # ---- model files

    def __proxstream_save__(self, weights_only: bool) -> dict[str, Any]:
        names = ("algorithm", "loss", "penalty", "n_features", "n_outputs", "dtype", "average", "growing", "n_threads")
        parts = {name: getattr(self, name) for name in (*names, "fit_intercept")}
        parts |= {"ranking": self.ranking, "pairs": self.pairs}
        if not weights_only and not isinstance(self.engine, FrozenEngine):
            return {**parts, "state": self.state_dict(copy=False)}
        coef, intercept = self.weights()
        weights = {"coef": coef, "intercept": np.asarray(intercept, np.float64), "t": self.t, "k": self.engine.k}
        return {**parts, "weights": {**weights, "losses": self._losses}}

    @classmethod
    def __proxstream_load__(cls, parts: dict[str, Any]) -> Self:
        state, weights = parts.pop("state", None), parts.pop("weights", None)
        for name in ("fit_intercept", "average", "growing", "ranking"):
            if not isinstance(parts[name], bool):
                raise TypeError(f"{name} must be true or false, got {parts[name]!r}")
        # A learner takes memory for its features and outputs: not more than the stored arrays justify.
        arrays = [array for array in (state or weights or {}).values() if isinstance(array, np.ndarray)]
        room, n_outputs = sum(array.size for array in arrays), _checks.integer("n_outputs", parts["n_outputs"], low=1)
        if _checks.integer("n_features", parts["n_features"], low=0) > room or n_outputs > max(room, 1 << 16):
            raise ValueError(f"{parts['n_features']} features and {n_outputs} outputs do not fit the arrays stored")
        if state and "state" in state and len(state["state"]) not in (parts["n_features"] * n for n in (1, n_outputs)):
            raise ValueError(f"a state of {parts['n_features']} features cannot have {len(state['state'])} rows")
        learner = cls(**parts)
        if state is not None:
            learner.load_state_dict(state)
        else:
            learner._freeze(**weights)
        if learner.n_features != parts["n_features"]:
            raise ValueError(f"the state must have {parts['n_features']} features, got {learner.n_features}")
        return learner

    def _freeze(self, *, coef: Array, intercept: Array, t: int, k: float, losses: Array) -> None:
        """Replace the engine by one that has weights only."""
        outputs = (self.n_outputs,) if self.n_outputs > 1 else ()
        if coef.dtype.kind != "f" or coef.shape != (self.n_features, *outputs) or not np.isfinite(coef).all():
            raise ValueError(f"the weights must be finite numbers of shape {(self.n_features, *outputs)}")
        if intercept.dtype != np.float64 or intercept.shape != outputs or not np.isfinite(intercept).all():
            raise ValueError(f"the intercept must be finite float64 of shape {outputs}")
        self.engine = FrozenEngine(
            coef,
            intercept if outputs else float(intercept),
            _checks.integer("t", t, low=0),
            _checks.number("k", k, low=0.0),
        )
        if self._queries is not None:
            self._queries = type(self._queries)(self.engine, self.pairs)
        self._losses = np.array(losses, np.float64).reshape(2)

    def _check(self, rows: RowBlock) -> tuple[int, float]:
        """Raise before anything is touched; return the number of features of the rows, and their largest value."""
        n_features = rows.check(self.n_threads)
        for name, values in (("y", rows.y), ("c", rows.c)):
            if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
                got = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
                raise TypeError(f"{name} of a RowBlock must be a vector of real numbers, got {got}")
        for name, values in (("labels", rows.y), ("weights", rows.c)):
            if values.shape != (rows.n_rows,) and not (name == "weights" and len(values) == 0):
                raise ValueError(f"a block of {rows.n_rows} rows needs as many {name}, got shape {values.shape}")
        if n_features > self.n_features and not self.growing:
            raise ValueError(f"a feature index must be < {self.n_features}, got {n_features - 1}")
        reach = rows.check_finite(self.n_threads)
        bad = ~(np.isfinite(rows.c) & (rows.c >= 0.0))
        if bad.any():
            raise ValueError(f"a weight must be finite and >= 0, got {rows.c[bad][0]} in row {int(np.argmax(bad))}")
        self.engine.check(rows)
        if self._queries is not None:
            _checks.vector("y", rows.y)  # relevance, any numbers
        elif self.n_outputs > 1:  # labels are classes
            losses.softmax.check_labels(rows.y, self.n_outputs)
        else:
            self.loss.check_labels(rows.y)
        return n_features, reach

    def losses_of(self, scores: Array, y: Array) -> Array:
        """Return the loss of each row's scores."""
        return row_losses(self.loss, scores, y)


def arrays_of(part: Any) -> Iterator[Array]:
    """Yield the arrays among a part's attributes, those in records and those of the engines of a trial too."""
    return (array for value in (vars(part).values() if part is not None else ()) for array in _arrays_in(value))


def _arrays_in(value: Any) -> Iterator[Array]:
    if isinstance(value, np.ndarray):
        yield value
    elif hasattr(value, "layout"):
        yield from arrays_of(value)
    elif isinstance(value, tuple):
        for one in value:
            yield from _arrays_in(one)


def _checked_qid(qid: Any, n_rows: int) -> Array:
    if qid is None:
        raise ValueError("a ranker needs the qid of each row")
    array = np.asarray(qid)
    if array.shape != (n_rows,) or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"qid must be one integer per row, {n_rows} in all, got {array.dtype} of shape {array.shape}")
    return array


def _trial(learner: Learner, n_features: int) -> Engine:
    """Return an engine that finds the scale of AutoFTRL."""
    from .trial import TrialEngine

    return TrialEngine(partial(_auto_engine, learner, n_features), learner.losses_of)


def _auto_engine(learner: Learner, n_features: int, scale: str) -> CompiledEngine:
    from .engine import CompiledEngine
    from .layouts import AutoLayout

    algorithm: Any = replace(learner.algorithm, scale=scale)
    layout = AutoLayout(algorithm, learner.penalty, learner.loss, learner.n_outputs, learner.dtype.type)
    return CompiledEngine(layout, n_features, learner.dtype, learner.fit_intercept)


def _engine(learner: Learner, n_features: int) -> Engine:
    """Return the engine that can run these settings: a compiled one wherever a row can cost its non-zeros alone."""
    from .engine import CompiledEngine
    from .layouts import AutoLayout, AveragedLayout, MulticlassLayout, ScalarLayout, auto_parts
    from .plan import multiclass_plan, plan

    parts = learner.algorithm, learner.penalty, learner.loss
    together, n_outputs, dtype = learner.loss.kind == "multiclass", learner.n_outputs, learner.dtype.type
    learner.algorithm.check(learner.penalty, (max(n_features, 1),) + (n_outputs,) * together)
    layout: Layout | None = None
    if isinstance(learner.algorithm, AutoFTRL):
        if learner.average:
            raise ValueError("average=True: AutoFTRL moves all weights every round, so that no means are kept")
        if not isinstance(auto_parts(learner.algorithm, *parts[1:], n_outputs, dtype), str):
            if learner.algorithm.scale == "auto":
                return _trial(learner, n_features)
            layout = AutoLayout(learner.algorithm, *parts[1:], n_outputs, dtype)
    if layout is None and n_outputs > 1:
        several = multiclass_plan(*parts, n_outputs, dtype)
        if not isinstance(several, str) and not learner.average:
            layout = MulticlassLayout(several)
        elif not together:
            raise TypeError(f"one-vs-rest: {several if isinstance(several, str) else 'no means are kept'}")
    elif layout is None:
        made = plan(*parts, dtype)
        if not isinstance(made, str):
            layout = AveragedLayout(made) if learner.average else ScalarLayout(made)
    if layout is not None:
        return CompiledEngine(layout, n_features, learner.dtype, learner.fit_intercept)
    from .dense import DenseEngine

    return DenseEngine(*parts, n_features=n_features, n_outputs=n_outputs, fit_intercept=learner.fit_intercept)
