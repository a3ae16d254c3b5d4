"""SDCAClassifier and SDCARegressor: Prox-SDCA as the paper has it, with its duality gap."""

from __future__ import annotations

from typing import Any

from ..batch import Problem, Solution
from ..batch.centring import solve_centred
from ..batch.proof import AIM
from ..batch.sdca import Rule, net_terms, solve
from ..core.losses import Loss
from ._batch import DEFAULT_PENALTY, BatchClassifier, BatchEstimator, BatchRegressor
from ._params import PenaltyLike


class _SDCA(BatchEstimator):
    """What both share: the parameters of Figure 1."""

    option: str
    sampling: str
    output: str
    average_from: int | None
    strong_part: str

    def _rule(self) -> Rule:
        return Rule(self.option, self.sampling, self.output, self.average_from, self.strong_part)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._rule().check(self._loss())

    def _solve(self, problem: Problem, start: Solution | None, n_threads: int) -> Solution:
        common: dict[str, Any] = {
            "tol": AIM * self.tol,
            "max_epochs": self.max_epochs,
            "seed": self._seed(),
            "n_threads": n_threads,
        }
        if problem.loss.kind == "multiclass":
            from ..batch.sdca import multiclass

            rule = Rule(strong_part=self.strong_part)
            if self._rule() != rule:
                raise TypeError(f"{problem.loss} is solved with option='I', sampling='permutation' and output='last'")

            def solved(near: Problem, start: Solution | None) -> Solution:
                return multiclass.solve(near, start=start, accelerate=False, **common)
        else:
            net_terms(problem.penalty, problem.n_features)

            def solved(near: Problem, start: Solution | None) -> Solution:
                return solve(near, start=start, rule=self._rule(), **common)

        return solve_centred(problem, start, self.tol, solved)


class SDCAClassifier(BatchClassifier, _SDCA):
    """A linear classifier by stochastic dual coordinate ascent, with a proof of how far from optimal it can be.

    It minimizes

        P(w, b) = (sum_i c_i phi(<w, x_i> + b, y_i)) / (sum_i c_i)  +  Psi(w)

    where phi is the loss, Psi the penalty, c_i the weight of row i and b the intercept, which is never penalized, until
    the duality gap, an upper bound on P(w, b) - min P computed from scratch on this objective, is at most
    tol * max(|primal|, |dual|). `CertifiedClassifier` solves the same problem and picks the fastest solver for it.

    Two classes have one vector of weights, classes_[1] being positive. With more, the logistic loss is the softmax and
    the hinge the multiclass hinge of Crammer and Singer; every other binary loss, or multi_class="one_vs_rest", sets
    each class against the rest, in `n_threads` threads; primal_, dual_ and duality_gap_ are then sums over classes.

    Parameters
    ----------
    loss : str or Loss
        "logistic", "hinge", "squared_hinge", "smoothed_hinge", "perceptron", "softmax", "multiclass_hinge", any of them
        with parameters as in "smoothed_hinge(0.5)".
    penalty : Penalty or str
        Psi: L2, ElasticNet, sums of L1 and L2, with one strength or one for each feature; or L1 alone, by way of
        `strong_part`. Prox-SDCA needs one: None, no penalty, is a TypeError.
    tol : float
        The relative duality gap to stop at.
    max_epochs : int
        Passes over the rows; after each, rows that have not settled are gone over again.
    option : {"I", "II", "III", "IV", "V"}
        The step of the paper's Figure 1: "I" maximizes the dual over a row's variable, "II" to "V" (smooth losses
        alone) go a part of the way to minus the slope.
    sampling : {"permutation", "uniform"}
        All rows in a new random order each pass, or rows sampled one by one.
    output : {"last", "average", "random"}
        The last dual variables, their mean over all steps since `average_from`, or those of one such step by lot.
    average_from : int, optional
        T_0 of the paper, in passes. None restarts after passes 1, 2, 4, 8, ...
    strong_part : {"l2", "q_norm"}
        What is added where a penalty has no squares: a vanishing ||w||_2^2 / 2 (the paper's section 3.1), or a
        squared q-norm (3.2). The certificate is for the objective without it.
    fit_intercept : bool
    n_threads : int
        If > 1, use several threads without locks (with output="last"): faster, but not bit-reproducible.
    random_state : int, RandomState or None
        For the order of rows.
    warm_start : bool
        Start from the last fit's dual variables if there are as many rows.
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
        The dual variables alpha.
    n_iter_ : int
        Epochs made.
    history_ : list of Record(epoch, seconds, primal, dual, gap, nnz)
        One for each certificate.
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
    >>> model = ps.SDCAClassifier(loss="hinge", penalty=ps.L2(0.01), tol=1e-3, random_state=0).fit(X, y)
    >>> bool(0 <= model.duality_gap_ <= 1e-3 * model.primal_), model.history_[-1].epoch == model.n_iter_
    (True, True)
    >>> bool(ps.certificate(model, X, y).gap < 1.001 * model.duality_gap_)
    True

    Reference: Shalev-Shwartz and Zhang 2012, Proximal stochastic dual coordinate ascent.
    """

    def __init__(
        self,
        loss: Loss | str = "logistic",
        penalty: PenaltyLike = DEFAULT_PENALTY,
        tol: float = 1e-4,
        max_epochs: int = 1000,
        option: str = "I",
        sampling: str = "permutation",
        output: str = "last",
        average_from: int | None = None,
        strong_part: str = "l2",
        fit_intercept: bool = True,
        n_threads: int = 1,
        random_state: Any = None,
        warm_start: bool = False,
        class_weight: Any = None,
        multi_class: str = "auto",
        callbacks: Any = None,
    ) -> None:
        self._set_parameters(locals())


class SDCARegressor(BatchRegressor, _SDCA):
    """A linear regression by stochastic dual coordinate ascent, with a proof of how far from optimal it can be.

    It minimizes

        P(w, b) = (sum_i c_i phi(<w, x_i> + b, y_i)) / (sum_i c_i)  +  Psi(w)

    where phi is the loss, Psi the penalty, c_i the weight of row i and b the intercept, which is never penalized, until
    the duality gap is at most tol * max(|primal|, |dual|). Ridge regression, the elastic net, support vector, quantile
    and Poisson regression are all of this form. `CertifiedRegressor` picks the fastest solver for it.

    Parameters
    ----------
    loss : str or Loss
        "squared", "absolute", "huber", "epsilon_insensitive", "quantile", "poisson", "gamma", "tweedie", any of them
        with parameters as in "quantile(0.9)".
    penalty : Penalty or str
        Psi: L2, ElasticNet, sums of L1 and L2, with one strength or one for each feature; or L1 alone, by way of
        `strong_part`. Prox-SDCA needs one: None, no penalty, is a TypeError.
    tol, max_epochs, option, sampling, output, average_from, strong_part : as in `SDCAClassifier`
    fit_intercept, n_threads, random_state, warm_start : as in `SDCAClassifier`
    callbacks : list of callables, optional
        Each is called with every `Record` as it is made, of one class against the rest with those of its own problem; a
        true return value ends the solver with the weights that it has. Not stored in model files.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    intercept_ : float
    primal_, dual_, duality_gap_, dual_coef_, n_iter_, history_, nnz_, n_features_in_, feature_names_in_
        As in `SDCAClassifier`.

    Examples
    --------
    >>> import numpy as np, proxstream as ps
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 5))
    >>> y = X[:, 0] + 0.5 + 0.1 * rng.normal(size=300)
    >>> model = ps.SDCARegressor(penalty=ps.L2(0.01), tol=1e-6, random_state=0).fit(X, y)
    >>> round(float(model.coef_[0]), 2), round(model.intercept_, 2)
    (1.0, 0.49)

    Reference: Shalev-Shwartz and Zhang 2012, Proximal stochastic dual coordinate ascent.
    """

    def __init__(
        self,
        loss: Loss | str = "squared",
        penalty: PenaltyLike = DEFAULT_PENALTY,
        tol: float = 1e-4,
        max_epochs: int = 1000,
        option: str = "I",
        sampling: str = "permutation",
        output: str = "last",
        average_from: int | None = None,
        strong_part: str = "l2",
        fit_intercept: bool = True,
        n_threads: int = 1,
        random_state: Any = None,
        warm_start: bool = False,
        callbacks: Any = None,
    ) -> None:
        self._set_parameters(locals())
