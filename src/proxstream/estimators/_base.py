"""What the stream estimators share: parameters, the path from data to the learner, and the fitted attributes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_array, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from ..core import validation as _checks
from ..core.algorithms import Algorithm
from ..core.losses import Loss
from ..core.parsing import as_algorithm, as_penalty
from ..core.penalties import Penalty
from ..core.validation import Array
from ..data.batches import Batch, blocks, check_weights, checked_matrix, element_parts
from ..data.order import LabelOrder, warn_of_order
from ..data.rowblock import RowBlock
from ..learner.learner import Learner
from ._columns import NamedColumns, block_of_table, unpacked
from ._params import AlgorithmLike, PenaltyLike
from ._progress import PassRecord, Report, check_callbacks, progress, stops
from ._rows import (
    block_scores,
    continue_features,
    is_stream,
    is_table,
    read_as_learned,
    start_features,
    without_column,
)

FITTED = ("n_features_in_", "feature_names_in_", "classes_", "_sparse")  # attributes beside the learner
SHUFFLE_STREAM = "shuffle them, as open_stream(..., shuffle_buffer=ROWS) does"
NOT_STORED = ("callbacks", "features")  # parameters that a model file leaves out, or holds in another form


class StreamEstimator(NamedColumns):
    """A linear model that learns from matrices and streams; subclasses define what labels mean."""

    _ranks = False  # whether rows come with a qid
    _learner: Learner
    history_: list[PassRecord]

    algorithm: AlgorithmLike
    penalty: PenaltyLike
    passes: int
    shuffle: bool
    average: bool
    fit_intercept: bool
    random_state: Any
    verbose: int
    callbacks: Any
    features: Any

    # ---- the model, read back

    def __sklearn_is_fitted__(self) -> bool:
        return "_learner" in vars(self)

    @property
    def t_(self) -> int:
        """Rows learned, those of weight 0 left out."""
        return self._fitted("t_").t

    @property
    def nnz_(self) -> int:
        """Weights that are not exactly zero."""
        return int(np.count_nonzero(self._weights("nnz_")[0]))

    @property
    def progressive_loss_(self) -> float:
        """The weighted mean loss of predictions made before their rows were learned for the first time."""
        return self._fitted("progressive_loss_").progressive_loss

    @property
    def coef_(self) -> Any:
        """The weights, made on access: a dense array, CSR after `sparsify`."""
        coef = self._coef(self._weights("coef_")[0])
        return csr_array(np.atleast_2d(coef)) if self._sparse else coef

    @property
    def intercept_(self) -> Any:
        """What is added to every score."""
        return self._intercept(self._weights("intercept_")[1])

    def _weights(self, attribute: str) -> tuple[Array, Any]:
        """Return coefficients and intercept in the units of the columns, also where numbers were standardized."""
        weights = self._fitted(attribute).weights()
        return self._featurizer.standardizer.fold(*weights) if self._standardizes else weights

    def sparsify(self) -> Self:
        """Let `coef_` be a CSR array from now on. What is learned, and how fast, does not change.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self._sparse = True
        return self

    def densify(self) -> Self:
        """Let `coef_` be a dense array again.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self._sparse = False
        return self

    def _coef(self, weights: Array) -> Array:
        return weights

    def _intercept(self, intercept: Any) -> Any:
        return intercept

    def _fitted(self, attribute: str) -> Learner:
        if not self.__sklearn_is_fitted__():  # an AttributeError too, so that hasattr works
            raise NotFittedError(f"{type(self).__name__} has no {attribute} before it is fitted")
        return self._learner

    # ---- from data to the learner

    def _checked(self, X: Any, y: Any, sample_weight: Any, *, reset: bool, **checks: Any) -> tuple[Any, Array, Array]:
        """Return X, y and the weights as scikit-learn checks them, X in the state's precision."""
        X, y = self._rows_of(X, y, first=reset)
        if isinstance(X, RowBlock):
            return self._checked_block(X, y, sample_weight, reset=reset)
        dtype = [np.float64, np.float32] if reset else self._learner.dtype
        try:
            X, y = validate_data(self, checked_matrix(X), y, accept_sparse="csr", dtype=dtype, reset=reset, **checks)
        except ValueError as error:
            if is_table(X) and str(error).startswith("could not convert string"):
                raise ValueError(f"{error}; a frame with text columns needs features=FeatureSpec(...)") from None
            raise
        return X, y, check_weights(sample_weight, X.shape[0])

    def _checked_block(self, X: RowBlock, y: Any, sample_weight: Any, *, reset: bool) -> tuple[RowBlock, Array, Array]:
        """Return a row block in the state's precision with its labels and weights; it may have new features."""
        X = self._block_in_precision(X, first=reset)
        if X.n_rows == 0:
            raise ValueError("a batch needs at least one row, got a RowBlock of 0 rows")
        y = column_or_1d(y)
        if len(y) != X.n_rows:
            raise ValueError(f"a RowBlock of {X.n_rows} rows needs as many labels, got {len(y)}")
        c = X.c if sample_weight is None else check_weights(sample_weight, X.n_rows)
        self.n_features_in_ = X.check() if reset else max(X.check(), self._learner.n_features)
        return X, y, c

    def _block_in_precision(self, X: RowBlock, *, first: bool) -> RowBlock:
        if first:
            self._forget_names()
        if self._standardizes:  # later, in double precision
            return X.in_precision(np.float64)
        if not first:
            return X.in_precision(self._learner.dtype)
        return X.in_precision(np.float32 if getattr(X.data, "dtype", None) == np.float32 else np.float64)

    def _fit(self, batch: Batch) -> Self:
        """Learn a checked batch with a new learner, which is thrown away after an error: there is nothing to undo."""
        self._check_total_weight(batch)
        learner, random = self._learner, check_random_state(self.random_state) if self.shuffle else None
        self.history_, started = [], time.perf_counter()
        if not self.shuffle:
            self._watch_order(self._label_order(), batch.y, "use shuffle=True", last=True)
        with progress(self.verbose, self.passes * batch.n_rows) as report:
            for i in range(self.passes):
                before = learner.loss_sums
                if i:
                    learner.end_query()
                if i == 1 and batch.raw is not None:  # by the statistics at the end of the first pass
                    batch = batch._replace(X=self._rows_of_learner(batch.raw))
                order = None if random is None else self._order(batch, random)
                for block, qid in blocks(batch, order=order, pieces=bool(self.verbose), n_threads=self.n_threads):
                    learner.learn(block, qid, undo=False, repeated=i > 0)
                    report(block.n_rows, self._reported_loss())
                self._shift_losses(batch)
                if self._end_pass(i, batch.n_rows, before, started):
                    break
        return self

    def _label_order(self) -> LabelOrder:
        return LabelOrder(self._learner.n_outputs if self._learner.n_outputs > 1 else 0)

    def _watch_order(self, labels: LabelOrder, y: Array, advice: str, *, last: bool) -> None:
        """Warn if rows look ordered by their labels; the rows of a query are never shuffled."""
        if not self._ranks and (labels.add(y) or (last and labels.judge())):
            warn_of_order(labels, advice)

    def _check_total_weight(self, batch: Batch) -> None:
        if len(batch.c) and not batch.c.any():
            raise ValueError("sample_weight must have a weight that is not zero, got zeros alone")

    def _shift_losses(self, batch: Batch) -> None:
        """Add what an offset has taken out of the losses and weights of a batch."""
        loss, weight = self._learner.loss_sums
        self._learner.loss_sums = loss + batch.shift[0], weight + batch.shift[1]

    def _end_pass(self, i: int, rows: int, before: tuple[float, float], started: float) -> bool:
        """Record a pass and return whether a callback stops the fit; `before` are the sums of losses at its start.

        The learner's progressive loss stays that of the first pass, the one in which rows are new.
        """
        learner = self._learner
        loss, weight = (now - then for now, then in zip(learner.loss_sums, before, strict=True))
        if i:
            learner.loss_sums = before
        mean = loss / weight if weight > 0.0 else float("nan")
        return self._record_pass(rows, mean, learner.count_nonzero(), started)

    def _record_pass(self, rows: int, loss: float, nnz: int, started: float) -> bool:
        record = PassRecord(len(self.history_) + 1, rows, loss, nnz, time.perf_counter() - started)
        self.history_ = [*self.history_, record]
        return stops(self.callbacks, record)

    def _learn_more(self, batch: Batch, *, first: bool, report: Report | None = None, repeated: bool = False) -> Self:
        """Learn a checked batch in one pass; the learner is as it was if a row is refused."""
        learner = self._learner
        learner.n_threads = _checks.integer("n_threads", self.n_threads, low=1)
        n_features = 0 if isinstance(batch.X, RowBlock) else batch.n_features  # empty columns at its end count, too
        with ExitStack() as stack:
            report = report or stack.enter_context(progress(self.verbose, batch.n_rows))
            pieces = blocks(batch, pieces=bool(self.verbose), n_threads=self.n_threads)
            head = list(islice(pieces, 2))
            if len(head) > 1 and not first:
                stack.enter_context(learner.undo_on_error())
            for block, qid in chain(head, pieces):
                undo = len(head) == 1 and not first
                learner.learn(block, qid, n_features=n_features, undo=undo, repeated=repeated)
                report(block.n_rows, self._reported_loss())
        self._shift_losses(batch)
        if first:
            self.history_ = []
        return self

    def _order(self, batch: Batch, random: np.random.RandomState) -> Array:
        return random.permutation(batch.n_rows)

    def _start(self, loss: Loss, n_outputs: int, n_features: int, dtype: Any, **settings: Any) -> None:
        """Make a new learner."""
        check_callbacks(self.callbacks)
        for name in ("shuffle", "average", "fit_intercept"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise TypeError(f"{name} must be True or False, got {getattr(self, name)!r}")
        _checks.integer("passes", self.passes, low=1)
        self._learner = self._new_learner(
            as_algorithm(self.algorithm),
            loss,
            as_penalty(self.penalty),
            n_features=n_features,
            n_outputs=n_outputs,
            dtype=self._featurizer.dtype if self._standardizes else dtype,
            fit_intercept=self.fit_intercept,
            average=self.average,
            n_threads=self.n_threads,
            **settings,
        )
        self._sparse = False

    def _new_learner(self, algorithm: Algorithm, loss: Loss, penalty: Penalty, **settings: Any) -> Learner:
        return Learner(algorithm, loss, penalty, **settings)

    def _reported_loss(self) -> float:
        """Return the progressive loss that a progress bar shows."""
        return self._learner.progressive_loss

    @property
    def _fitted_loss(self) -> Loss:
        """The loss that has been learned."""
        return self._learner.loss

    @contextmanager
    def _kept_if_refused(self) -> Iterator[None]:
        """Put every attribute back where an error is raised: a refused batch leaves no trace."""
        before = self.__dict__.copy()
        state = self._featurizer.standardizer.state.copy() if self._standardizes else None
        try:
            yield
        except Exception:
            self.__dict__ = before
            if state is not None:
                self._featurizer.standardizer.state = state
            raise

    # ---- streams

    def _stream(self, stream: Iterable[Any], reset: bool, **options: Any) -> Self:
        """Learn the elements of a stream, each as `_element` takes it."""
        if self.passes > 1 and iter(stream) is stream:
            raise ValueError(f"passes={self.passes} needs a stream that can be read again, got an iterator")
        first, any_rows, started = reset or not self.__sklearn_is_fitted__(), False, time.perf_counter()
        labels: LabelOrder | None = None
        named, known = is_stream(stream), not first and "_featurizer" in vars(self)
        if named and known:
            continue_features(stream, self._featurizer)  # type: ignore[arg-type]
        elif named:
            start_features(stream)  # type: ignore[arg-type]
        with progress(self.verbose, None) as report:
            for i in range(self.passes):
                before, rows = (0.0, 0.0) if first else self._learner.loss_sums, 0
                if i:
                    self._learner.end_query()
                try:
                    for element in stream:
                        with self._kept_if_refused():
                            if first:
                                self.__dict__.pop("_featurizer", None)
                            if named and not known and stream.used_featurizer is not None:  # type: ignore[attr-defined]
                                self._featurizer = stream.used_featurizer  # type: ignore[attr-defined]
                            batch = self._element(element, first=first, **options)
                            if batch is None:
                                continue
                            batch = self._standardized(batch, learn=i == 0)
                            self._learn_more(batch, first=first, report=report, repeated=i > 0)
                            self.n_features_in_ = self._learner.n_features
                        if i == 0:
                            labels = labels or self._label_order()
                            self._watch_order(labels, batch.y, SHUFFLE_STREAM, last=False)
                        first, rows, any_rows = False, rows + batch.n_rows, True
                except Exception:
                    if i:  # the progressive loss is that of the first pass
                        self._learner.loss_sums = before
                    raise
                if labels is not None and i == 0:
                    self._watch_order(labels, np.empty(0), SHUFFLE_STREAM, last=True)
                if rows and self._end_pass(i, rows, before, started):
                    break
        if not any_rows:
            raise ValueError("a stream needs at least one row to learn from, got none")
        return self

    def _element(self, element: Any, *, first: bool, **options: Any) -> Batch | None:
        """Return a checked batch of an element of a stream, None if it is empty."""
        X, y, qid, sample_weight = element_parts(element, self._ranks)
        if is_table(X):
            X, y = self._rows_of(X, y, first=first)
        X, y = self._matrix(X, first=first), np.asarray(y)
        n_rows = Batch(X, y).n_rows
        if y.shape != (n_rows,):
            raise ValueError(f"a batch of {n_rows} rows needs as many labels, got y of shape {y.shape}")
        if n_rows == 0:
            return None
        return self._prepare(Batch(X, y, check_weights(sample_weight, n_rows), qid), first=first, **options)

    def _prepare(self, batch: Batch, *, first: bool, **options: Any) -> Batch:
        """Return a batch of a stream with labels as the loss knows them; make the learner if it is the first."""
        raise NotImplementedError

    def _matrix(self, X: Any, *, first: bool) -> Any:
        """Return the features of a stream's element, in the state's precision; a matrix may be wider than the last."""
        dtype = [np.float64, np.float32] if first else self._learner.dtype
        if isinstance(X, RowBlock):
            return self._block_in_precision(X, first=first)
        if hasattr(X, "columns"):  # a frame has names, which stay
            return validate_data(self, X, accept_sparse="csr", dtype=dtype, reset=first)
        if first:
            self._forget_names()
        X = checked_matrix(X)
        return check_array(X, accept_sparse="csr", dtype=dtype, ensure_min_samples=0, estimator=self, input_name="X")

    def _forget_names(self) -> None:
        self.__dict__.pop("feature_names_in_", None)

    # ---- model files

    def __proxstream_save__(self, weights_only: bool) -> dict[str, Any]:
        own = vars(self)
        fitted = {name: own[name] for name in FITTED if name in own}
        params = {name: value for name, value in self.get_params(deep=False).items() if name not in NOT_STORED}
        if self.features is not None:
            params["features"] = self.features.to_json()
        if "_featurizer" in own:
            featurizer = own["_featurizer"]
            fitted["features"] = {"spec": featurizer.spec.to_json(), "names": featurizer.arrays()}
        return {"params": params, "fitted": fitted, "learner": own.get("_learner")}

    @classmethod
    def __proxstream_load__(cls, parts: dict[str, Any]) -> Self:
        from ..io.features.spec import FeatureSpec

        params, learner, fitted = dict(parts["params"]), parts["learner"], dict(parts["fitted"])
        if params.get("features") is not None:
            params["features"] = FeatureSpec.from_json(params["features"])
        model, columns = cls(**params), fitted.pop("features", None)
        if learner is None:
            check_unfitted(cls.__name__, fitted)
            return model
        if not isinstance(learner, Learner) or learner.ranking != cls._ranks or not set(fitted) <= set(FITTED):
            raise ValueError(f"a {cls.__name__} has a learner and {', '.join(FITTED)}")
        check_columns(fitted, learner.n_features)
        _checks.truth("_sparse", fitted["_sparse"])
        model._restored(learner, **fitted)
        if columns is not None:
            model._featurizer = unpacked((FeatureSpec.from_json(columns["spec"]), np.float64, columns["names"]))
        return model

    def _restored(self, learner: Learner, **fitted: Any) -> None:
        """Take the attributes of a model file, after the subclass has checked its own."""
        self._learner, self.history_ = learner, []
        self.__dict__.update(fitted)

    # ---- scores

    def _scores(self, X: Any) -> Array:
        """Return the scores of each row; unknown features of a row block count 0."""
        check_is_fitted(self)
        if is_stream(X):
            scores = block_scores(self._scores, read_as_learned(self, X))
            used, own = X.used_featurizer, vars(self).get("_featurizer")
            other = used is not None and used is not own and used.growing
            if other and (not used.hashed or (own is not None and used.standardizes != own.standardizes)):
                raise ValueError(
                    "this stream numbers its features in another way: open it with features=model.featurizer_"
                )
            return scores
        if is_table(X) and "_featurizer" in vars(self):
            label = None if self.features is None else self.features.label
            used = self.featurizer_
            X = block_of_table(without_column(X, label or "label")[0], used)
        if isinstance(X, RowBlock):
            return self._learner.predict(self._rows_of_learner(X))
        X = validate_data(self, checked_matrix(X), accept_sparse="csr", dtype=self._learner.dtype, reset=False)
        found = [block for block, _ in blocks(Batch(X, np.empty(0)))]
        if self._standardizes:  # zeros of a matrix are numbers and not missing
            weights = self._weights("coef_")
            return np.concatenate([block.scores(*weights) for block in found])
        return np.concatenate([self._learner.predict(block) for block in found])


def check_unfitted(name: str, fitted: Any) -> None:
    """Raise a ValueError if a file without a learner has fitted attributes."""
    if fitted != {}:
        raise ValueError(f"a fitted {name} must have its learner or weights, got none")


def check_columns(fitted: Any, n_features: int) -> None:
    """Raise an error unless the columns named in a file are those of the weights."""
    if _checks.integer("n_features_in_", fitted["n_features_in_"], low=0) != n_features:
        raise ValueError(f"n_features_in_ must be {n_features}, one per weight, got {fitted['n_features_in_']}")
    names = fitted.get("feature_names_in_")
    if names is not None and (not isinstance(names, np.ndarray) or names.shape != (n_features,)):
        raise ValueError(f"feature_names_in_ must be {n_features} names")
