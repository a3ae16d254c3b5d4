"""StreamPathClassifier and StreamPathRegressor: many strengths of a penalty in one pass, of which one is chosen."""

from __future__ import annotations

from typing import Any

from ..core.losses import Loss
from ..core.penalties import L1
from ..core.validation import Array
from ..data.batches import Batch
from ._params import AlgorithmLike, PenaltyLike
from ._path import StreamPath
from .classifier import StreamClassifier
from .regressor import StreamRegressor

TEMPLATE = L1()


class StreamPathClassifier(StreamPath, StreamClassifier):
    """Sparse linear classifiers for many strengths of a penalty, learned side by side in one pass.

    Model k follows the minimizer of mean loss + s_k Psi(w), and is bit for bit the `StreamClassifier` with the penalty
    s_k Psi after the same rows. While they learn, the losses of every row are compared under all strengths, each before
    the row was learned; `choose` picks a strength by them, or by held-out rows given to `validate`.

    With strengths=None the largest one is the least that leaves no weight on the first 1000 rows, and the others go
    down to 1e-4 of it in equal ratios, 9 in all, and 0. These rows are learned like all others, as soon as there are
    enough of them; until then results are those of a stream that ends there.

    AutoFTRL, FTRLProximal, AdaGrad and RDA with two classes learn all strengths in one compiled loop, which shares the
    reading of rows and memory; anything else learns them one after the other. `predict`, `predict_proba`, `score` and
    `top_features` are those of the best strength.

    Parameters
    ----------
    strengths : array of numbers >= 0, increasing or decreasing, optional
        Factors of the penalty. None finds them.
    penalty : Penalty or str
        Psi, the template whose strength varies: L1(), L2(), ElasticNet(0.9, 0.1), GroupL2() over the rows of several
        classes, and sums with constraints, which stay as they are.
    algorithm, loss, passes, shuffle, average, fit_intercept, n_threads, random_state, class_weight, multi_class
        As for `StreamClassifier`.
    verbose, callbacks, features
        As for `StreamClassifier`. Models that learn side by side do so in one thread.

    Attributes
    ----------
    strengths_, nnz_, progressive_loss_, intercept_ : arrays with one entry per strength
    coef_ : array of shape (strengths, n_features), or (strengths, n_classes, n_features)
    classes_, n_features_in_, feature_names_in_, t_, history_ :
        As for `StreamClassifier`; `history_` records the best strength of each pass.

    Examples
    --------
    >>> import numpy as np, proxstream as ps
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 50))
    >>> y = X[:, 0] - X[:, 1] + rng.logistic(size=3000) > 0
    >>> path = ps.StreamPathClassifier(strengths=[0.1, 0.03, 0.01, 0.001]).fit(X, y)
    >>> path.nnz_
    array([ 2,  2,  5, 46])
    >>> model = path.choose("1se")
    >>> type(model).__name__, model.penalty, np.flatnonzero(model.coef_)
    ('StreamClassifier', L1(lam=0.03), array([0, 1]))

    Reference: Breiman, Friedman, Olshen and Stone 1984, Classification and regression trees, section 3.4.3 (the rule of
    one standard error).
    """

    _one = StreamClassifier

    def __init__(
        self,
        strengths: Any = None,
        penalty: PenaltyLike = TEMPLATE,
        algorithm: AlgorithmLike = None,
        loss: Loss | str = "logistic",
        passes: int = 1,
        shuffle: bool = False,
        average: bool = False,
        fit_intercept: bool = True,
        n_threads: int = 1,
        random_state: Any = None,
        class_weight: Any = None,
        multi_class: str = "auto",
        verbose: int = 0,
        callbacks: Any = None,
        features: Any = None,
    ) -> None:
        self._set_parameters(locals())

    def _labelled(self, X: Any, y: Array, c: Array) -> Batch:
        return self._batch(X, y, c)


class StreamPathRegressor(StreamPath, StreamRegressor):
    """Sparse linear regressions for many strengths of a penalty, learned side by side in one pass.

    Model k follows the minimizer of mean loss + s_k Psi(w), and is bit for bit the `StreamRegressor` with the penalty
    s_k Psi after the same rows. See `StreamPathClassifier` for how strengths are found and chosen.

    Parameters
    ----------
    strengths : array of numbers >= 0, increasing or decreasing, optional
        Factors of the penalty. None finds them.
    penalty : Penalty or str
        Psi, the template whose strength varies.
    algorithm, loss, passes, shuffle, average, fit_intercept, n_threads, random_state, verbose, callbacks, features
        As for `StreamRegressor`. Models that learn side by side do so in one thread.

    Attributes
    ----------
    strengths_, nnz_, progressive_loss_, intercept_ : arrays with one entry per strength
    coef_ : array of shape (strengths, n_features)
    n_features_in_, feature_names_in_, t_, history_ :
        As for `StreamRegressor`; `history_` records the best strength of each pass.

    Examples
    --------
    >>> import numpy as np, proxstream as ps
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(3000, 50))
    >>> y = 3.0 * X[:, 0] - 2.0 * X[:, 1] + rng.normal(size=3000)
    >>> path = ps.StreamPathRegressor().fit(X, y)
    >>> len(path.strengths_), np.flatnonzero(path.choose(nnz=2).coef_)
    (10, array([0, 1]))

    Reference: Breiman, Friedman, Olshen and Stone 1984, Classification and regression trees, section 3.4.3 (the rule of
    one standard error).
    """

    _one = StreamRegressor

    def __init__(
        self,
        strengths: Any = None,
        penalty: PenaltyLike = TEMPLATE,
        algorithm: AlgorithmLike = None,
        loss: Loss | str = "squared",
        passes: int = 1,
        shuffle: bool = False,
        average: bool = False,
        fit_intercept: bool = True,
        n_threads: int = 1,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
        features: Any = None,
    ) -> None:
        self._set_parameters(locals())

    def _labelled(self, X: Any, y: Array, c: Array) -> Batch:
        return self._prepare(Batch(X, y, c), first=False)
