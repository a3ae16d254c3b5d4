"""CertifiedClassifier and CertifiedRegressor: the fastest solver for the problem at hand, and always a proof."""

from __future__ import annotations

from typing import Any

from ..batch import Problem, Solution, dispatch as certified
from ..core import validation as _checks
from ..core.losses import Loss
from ..core.penalties import L2, NoPenalty, Penalty
from ._batch import DEFAULT_PENALTY, BatchClassifier, BatchEstimator, BatchRegressor
from ._params import PenaltyLike

SMALLEST = L2(1e-8)  # below the rounding of 32-bit numbers, and strong enough for Newton's method


class _Certified(BatchEstimator):
    """What both share: the choice of a solver."""

    _advice = "raise max_epochs or tol, strengthen the penalty, scale the features, or try another solver"
    solver: str

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _checks.one_of("solver", self.solver, certified.SOLVERS)

    def _penalty(self) -> Penalty:
        penalty = super()._penalty()
        if isinstance(penalty, NoPenalty):
            raise TypeError(
                f"{type(self).__name__} needs a penalty, got {penalty!r}: no solver certifies a problem without one; "
                f"{SMALLEST!r} is the smallest that is sensible for features of about unit scale"
            )
        return penalty

    def _solve(self, problem: Problem, start: Solution | None, n_threads: int) -> Solution:
        return certified.solve(
            problem,
            solver=self.solver,
            tol=self.tol,
            max_epochs=self.max_epochs,
            seed=self._seed(),
            start=start,
            n_threads=n_threads,
        )


class CertifiedClassifier(BatchClassifier, _Certified):
    """A linear classifier with a proof of how far from optimal it can be, by the fastest solver for its problem.

    It minimizes

        P(w, b) = (sum_i c_i phi(<w, x_i> + b, y_i)) / (sum_i c_i)  +  Psi(w)

    where phi is the loss, Psi the penalty, c_i the weight of row i and b the intercept, which is never penalized, until
    the duality gap, an upper bound on P(w, b) - min P computed from scratch on this objective, is at most
    tol * max(|primal|, |dual|).

    Smooth losses under L1, L2 or the elastic net are solved on the primal by Newton's method, or by Prox-SDCA where
    that is faster; losses with kinks by Prox-SDCA if the penalty has a strongly convex part, or by an interior-point
    method under L1 (so also the smoothed hinge) or where that is faster.

    Two classes have one vector of weights, classes_[1] being positive. With more, the logistic loss is the softmax and
    the hinge the multiclass hinge of Crammer and Singer; every other binary loss, or multi_class="one_vs_rest", sets
    each class against the rest, in `n_threads` threads; primal_, dual_ and duality_gap_ are then sums over classes.

    Parameters
    ----------
    loss : str or Loss
        "logistic", "hinge", "squared_hinge", "smoothed_hinge", "perceptron", "softmax", "multiclass_hinge", any of them
        with parameters as in "smoothed_hinge(0.5)".
    penalty : Penalty or str
        Psi, such as L1(1e-4), "elastic_net(1e-4, 1e-4)" or L2([...]) with a strength for each feature. None is
        refused: no solver certifies a problem without a penalty.
    solver : {"auto", "sdca", "newton"}
        "auto" chooses by the data, the loss and the penalty.
    tol : float
        The relative duality gap to stop at.
    max_epochs : int
        Passes of Prox-SDCA, steps of Newton's method.
    fit_intercept : bool
    n_threads : int
        Of the solver's passes, or of classes against the rest; docs/certified.md lists what each solver parallelizes.
    random_state : int, RandomState or None
        For the order of rows in Prox-SDCA.
    warm_start : bool
        Start from the last fit's solution if it has the same size.
    class_weight : dict, "balanced" or None
        What multiplies the weights of a class's rows.
    multi_class : {"auto", "one_vs_rest"}
        With more than two classes: as described above, or one class against the rest whatever the binary loss.
    callbacks : list of callables, optional
        Each is called with every `Record` as it is made, of one class against the rest with those of its own problem; a
        true return value ends the solver with the weights that it has. Not stored in model files.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) for two classes, else (n_classes, n_features)
    intercept_ : array of shape (1,) or (n_classes,)
    classes_ : array of shape (n_classes,)
    primal_, dual_, duality_gap_ : float
        P at the weights, the best lower bound on P, and their difference.
    dual_coef_ : array of shape (n_samples,) or (n_samples, n_classes)
        The dual variables alpha that prove it.
    n_iter_ : int
        Epochs made.
    history_ : list of Record(epoch, seconds, primal, dual, gap, nnz)
    nnz_ : int
        Weights that are not zero.
    n_features_in_ : int
    feature_names_in_ : array of str, when X had names

    Examples
    --------
    >>> import numpy as np, proxstream as ps
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 20))
    >>> y = np.where(X[:, 0] - X[:, 1] + rng.logistic(size=500) > 0, "yes", "no")
    >>> model = ps.CertifiedClassifier(penalty=ps.L2(0.001), tol=1e-6).fit(X, y)
    >>> bool(0 <= model.duality_gap_ <= 1e-6 * model.primal_)
    True
    >>> bool(abs(ps.certificate(model, X, y).primal - model.primal_) < 1e-12)
    True
    >>> model.predict_proba(X[:1]).sum()
    np.float64(1.0)

    References: Shalev-Shwartz and Zhang 2012, Proximal stochastic dual coordinate ascent; Lin, Weng and Keerthi 2008,
    Trust region Newton method for large-scale logistic regression.
    """

    def __init__(
        self,
        loss: Loss | str = "logistic",
        penalty: PenaltyLike = DEFAULT_PENALTY,
        solver: str = "auto",
        tol: float = 1e-4,
        max_epochs: int = 1000,
        fit_intercept: bool = True,
        n_threads: int = 1,
        random_state: Any = None,
        warm_start: bool = False,
        class_weight: Any = None,
        multi_class: str = "auto",
        callbacks: Any = None,
    ) -> None:
        self._set_parameters(locals())


class CertifiedRegressor(BatchRegressor, _Certified):
    """A linear regression with a proof of how far from optimal it can be, by the fastest solver for its problem.

    It minimizes

        P(w, b) = (sum_i c_i phi(<w, x_i> + b, y_i)) / (sum_i c_i)  +  Psi(w)

    where phi is the loss, Psi the penalty, c_i the weight of row i and b the intercept, which is never penalized, until
    the duality gap, an upper bound on P(w, b) - min P computed from scratch on this objective, is at most
    tol * max(|primal|, |dual|). With L1 and the squared loss this is the lasso, with ElasticNet the elastic net.

    Parameters
    ----------
    loss : str or Loss
        "squared" (with a factor 1/2), "absolute", "huber", "epsilon_insensitive", "quantile", "poisson", "gamma",
        "tweedie", any of them with parameters as in "quantile(0.9)". With the last three, for counts and amounts,
        `predict` returns the mean e^(<w, x> + b).
    penalty : Penalty or str
        Psi, such as L1(1e-4), "elastic_net(1e-4, 1e-4)" or L2([...]) with a strength for each feature. None is
        refused: no solver certifies a problem without a penalty.
    solver : {"auto", "sdca", "newton"}
        "auto" chooses by the data, the loss and the penalty.
    tol : float
        The relative duality gap to stop at.
    max_epochs : int
        Passes of Prox-SDCA, steps of Newton's method.
    fit_intercept : bool
    n_threads : int
        Of the solver's passes, or of classes against the rest; docs/certified.md lists what each solver parallelizes.
    random_state : int, RandomState or None
        For the order of rows in Prox-SDCA.
    warm_start : bool
        Start from the last fit's solution if it has the same size.
    callbacks : list of callables, optional
        Each is called with every `Record` as it is made, of one class against the rest with those of its own problem; a
        true return value ends the solver with the weights that it has. Not stored in model files.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    intercept_ : float
    primal_, dual_, duality_gap_ : float
        P at the weights, the best lower bound on P, and their difference.
    dual_coef_ : array of shape (n_samples,)
        The dual variables alpha that prove it.
    n_iter_ : int
        Epochs made.
    history_ : list of Record(epoch, seconds, primal, dual, gap, nnz)
    nnz_ : int
        Weights that are not zero.
    n_features_in_ : int
    feature_names_in_ : array of str, when X had names

    Examples
    --------
    >>> import numpy as np, proxstream as ps
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 20))
    >>> y = 3.0 * X[:, 0] + 5.0 + rng.normal(size=500)
    >>> model = ps.CertifiedRegressor(penalty=ps.L2(0.001), tol=1e-6).fit(X, y)
    >>> bool(0 <= model.duality_gap_ <= 1e-6 * model.primal_), round(model.intercept_)
    (True, 5)

    References: Shalev-Shwartz and Zhang 2012, Proximal stochastic dual coordinate ascent.
    """

    def __init__(
        self,
        loss: Loss | str = "squared",
        penalty: PenaltyLike = DEFAULT_PENALTY,
        solver: str = "auto",
        tol: float = 1e-4,
        max_epochs: int = 1000,
        fit_intercept: bool = True,
        n_threads: int = 1,
        random_state: Any = None,
        warm_start: bool = False,
        callbacks: Any = None,
    ) -> None:
        self._set_parameters(locals())
