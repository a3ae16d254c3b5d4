"""What the three estimators share: parameters, the road from data to the learner, and the model read back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import _checks, losses
from .._checks import Array
from ..algorithms import Algorithm, AutoFTRL
from ..blocks import NO_WEIGHTS, RowBlock
from ..learner import Learner
from ..losses import Loss
from ..penalties import Penalty
from .components import Composed
from .progress import progress
from .rows import Batch, blocks, element_parts

FITTED = ("n_features_in_", "feature_names_in_", "classes_", "_sparse")  # what a fitted model has beside its learner


class StreamEstimator(Composed):
    """A linear model that learns from matrices and streams; subclasses tell what labels mean."""

    _kinds: tuple[str, ...]  # of losses that the estimator takes
    _ranks = False  # whether rows come with a qid
    _learner: Learner

    def __init__(
        self,
        algorithm: Algorithm | None = None,
        loss: Loss | str = "logistic",
        penalty: Penalty | None = None,
        passes: int = 1,
        shuffle: bool = False,
        average: bool = False,
        fit_intercept: bool = True,
        n_threads: int = 1,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.algorithm = algorithm
        self.loss = loss
        self.penalty = penalty
        self.passes = passes
        self.shuffle = shuffle
        self.average = average
        self.fit_intercept = fit_intercept
        self.n_threads = n_threads
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.non_deterministic = self.n_threads != 1
        return tags

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
        return int(np.count_nonzero(self._fitted("nnz_").weights()[0]))

    @property
    def progressive_loss_(self) -> float:
        """The weighted mean loss of predictions made before their rows were learned for the first time."""
        return self._fitted("progressive_loss_").progressive_loss

    @property
    def coef_(self) -> Any:
        """The weights, made on access: a dense array, CSR after `sparsify`."""
        coef = self._coef(self._fitted("coef_").weights()[0])
        return csr_array(np.atleast_2d(coef)) if self._sparse else coef

    @property
    def intercept_(self) -> Any:
        """What is added to every score."""
        return self._intercept(self._fitted("intercept_").weights()[1])

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
        if not self.__sklearn_is_fitted__():  # an AttributeError too, so that hasattr tells the truth
            raise NotFittedError(f"{type(self).__name__} has no {attribute} before it is fitted")
        return self._learner

    # ---- from data to the learner

    def _checked(self, X: Any, y: Any, sample_weight: Any, *, reset: bool, **checks: Any) -> tuple[Any, Array, Array]:
        """Return X, y and the weights as scikit-learn checks them, X in the state's precision."""
        dtype = [np.float64, np.float32] if reset else self._learner.dtype
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=dtype, reset=reset, **checks)
        return X, y, weights(sample_weight, X.shape[0])

    def _fit(self, batch: Batch) -> Self:
        """Learn a checked batch from the start."""
        if len(batch.c) and not batch.c.any():
            raise ValueError("sample_weight must have a weight that is not zero, got zeros alone")
        return self._learned(batch, self.passes, self.shuffle)

    def _learned(self, batch: Batch, passes: int = 1, shuffle: bool = False) -> Self:
        """Learn a checked batch."""
        learner, random = self._learner, check_random_state(self.random_state) if shuffle else None
        learner.n_threads = _checks.integer("n_threads", self.n_threads, low=1)
        with progress(self.verbose, passes * batch.n_rows) as tell:
            for i in range(passes):
                if i:
                    learner.end_query()
                order = None if random is None else self._order(batch, random)
                for block, qid in blocks(batch, order=order, pieces=bool(self.verbose), n_threads=self.n_threads):
                    learner.learn(block, qid, count=i == 0)
                    tell(block.n_rows, learner.progressive_loss)
        return self

    def _order(self, batch: Batch, random: np.random.RandomState) -> Array:
        return random.permutation(batch.n_rows)

    def _start(self, loss: Loss, n_outputs: int, n_features: int, dtype: Any, **settings: Any) -> None:
        """Make a learner that knows nothing yet."""
        for name in ("shuffle", "average", "fit_intercept"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise TypeError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if self.algorithm is not None and not isinstance(self.algorithm, Algorithm):
            raise TypeError(f"algorithm must be None or an Algorithm such as RDA(gamma=1.0), got {self.algorithm!r}")
        _checks.integer("passes", self.passes, low=1)
        self._learner = Learner(
            AutoFTRL() if self.algorithm is None else self.algorithm,
            loss,
            self.penalty,
            n_features=n_features,
            n_outputs=n_outputs,
            dtype=dtype,
            fit_intercept=self.fit_intercept,
            average=self.average,
            n_threads=self.n_threads,
            **settings,
        )
        self._sparse = False

    def _loss(self) -> Loss:
        loss = losses.get(self.loss)
        if loss.kind not in self._kinds:
            named = [name for name in losses.names() if losses.get(name).kind in self._kinds]
            raise ValueError(f"the loss of {type(self).__name__} must be one of {', '.join(named)}, got {loss}")
        return loss

    @contextmanager
    def _kept_if_refused(self) -> Iterator[None]:
        """Put every attribute back where an error is raised: a refused batch leaves no trace."""
        before = self.__dict__.copy()
        try:
            yield
        except Exception:
            self.__dict__ = before
            raise

    # ---- streams

    def _stream(self, stream: Iterable[Any], reset: bool, **told: Any) -> Self:
        """Learn the elements of a stream, each as `_element` takes it."""
        if self.passes > 1 and iter(stream) is stream:
            raise ValueError(f"passes={self.passes} needs a stream that can be read again, got an iterator")
        first, rows = reset or not self.__sklearn_is_fitted__(), 0
        with progress(self.verbose, None) as tell:
            for i in range(self.passes):
                if i:
                    self._learner.end_query()
                for element in stream:
                    with self._kept_if_refused():
                        batch = self._element(element, first=first, **told)
                        if batch is None:
                            continue
                        if not isinstance(batch.X, RowBlock):  # empty columns at its end count, too
                            self._learner.engine.grow(batch.n_features)
                        for block, qid in blocks(batch, n_threads=self.n_threads):
                            self._learner.learn(block, qid, count=i == 0)
                            tell(block.n_rows, self._learner.progressive_loss)
                        self.n_features_in_ = self._learner.n_features
                    first, rows = False, rows + batch.n_rows
        if not rows:
            raise ValueError("a stream needs at least one row to learn from, got none")
        return self

    def _element(self, element: Any, *, first: bool, **told: Any) -> Batch | None:
        """Return a checked batch of an element of a stream, None if it is empty."""
        X, y, qid, sample_weight = element_parts(element, self._ranks)
        X, y = self._matrix(X, first=first), np.asarray(y)
        n_rows = Batch(X, y).n_rows
        if y.shape != (n_rows,):
            raise ValueError(f"a batch of {n_rows} rows needs as many labels, got y of shape {y.shape}")
        if n_rows == 0:
            return None
        return self._taken(Batch(X, y, weights(sample_weight, n_rows), qid), first=first, **told)

    def _taken(self, batch: Batch, *, first: bool, **told: Any) -> Batch:
        """Return a batch of a stream with labels as the loss knows them; make the learner if it is the first."""
        raise NotImplementedError

    def _matrix(self, X: Any, *, first: bool) -> Any:
        """Return the features of a stream's element, in the state's precision; a matrix may be wider than the last."""
        dtype = [np.float64, np.float32] if first else self._learner.dtype
        if isinstance(X, RowBlock):
            if first:
                self._forget_names()
                dtype = np.float32 if X.data.dtype == np.float32 else np.float64
            return X._replace(data=X.data.astype(dtype, copy=False))
        if hasattr(X, "columns"):  # a frame has names, which stay
            return validate_data(self, X, accept_sparse="csr", dtype=dtype, reset=first)
        if first:
            self._forget_names()
        return check_array(X, accept_sparse="csr", dtype=dtype, ensure_min_samples=0, estimator=self, input_name="X")

    def _forget_names(self) -> None:
        self.__dict__.pop("feature_names_in_", None)

    # ---- model files

    def __proxstream_save__(self, weights_only: bool) -> dict[str, Any]:
        own = vars(self)
        fitted = {name: own[name] for name in FITTED if name in own}
        return {"params": self.get_params(deep=False), "fitted": fitted, "learner": own.get("_learner")}

    @classmethod
    def __proxstream_load__(cls, parts: dict[str, Any]) -> Self:
        model, learner, fitted = cls(**parts["params"]), parts["learner"], parts["fitted"]
        if learner is None:
            return model
        if not isinstance(learner, Learner) or learner.ranking != cls._ranks or not set(fitted) <= set(FITTED):
            raise ValueError(f"a {cls.__name__} has a learner and {', '.join(FITTED)}")
        _checks.integer("n_features_in_", fitted["n_features_in_"], low=0)
        model._restored(learner, **fitted)
        return model

    def _restored(self, learner: Learner, **fitted: Any) -> None:
        """Take what a file has kept, after checking what the subclass knows of it."""
        self._learner = learner
        self.__dict__.update(fitted)

    # ---- scores

    def _scores(self, X: Any) -> Array:
        """Return the scores of each row; unknown features of a row block count 0."""
        check_is_fitted(self)
        if isinstance(X, RowBlock):
            return self._learner.predict(X._replace(data=X.data.astype(self._learner.dtype, copy=False)))
        X = validate_data(self, X, accept_sparse="csr", dtype=self._learner.dtype, reset=False)
        return np.concatenate([self._learner.predict(block) for block, _ in blocks(Batch(X, np.empty(0)))])


def weights(sample_weight: Any, n_rows: int) -> Array:
    """Return one weight >= 0 a row; none at all where all are 1.

    >>> weights([1, 0.5], 2), weights(None, 2)
    (array([1. , 0.5]), array([], dtype=float64))
    """
    if sample_weight is None:
        return NO_WEIGHTS
    c = np.asarray(check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"))
    if c.ndim == 0:
        c = np.full(n_rows, float(c))
    if c.ndim != 1 or len(c) != n_rows:
        raise ValueError(f"sample_weight must have shape ({n_rows},), got {c.shape}")
    if (c < 0.0).any():
        i = int(np.argmax(c < 0.0))
        raise ValueError(f"sample_weight must be >= 0, got {c[i]} at index {i}")
    return c
