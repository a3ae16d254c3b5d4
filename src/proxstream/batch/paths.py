"""A model for each of many strengths of one penalty, from the least that leaves no weight downward.

    P_s(w, b) = sum_i p_i phi(<x_i, w> + b, y_i) + s Psi(w)         s = s_max, ..., ratio * s_max

Each solution is where the search for the next begins, and each ends with its proof. At s_max the weights are exactly 0
(`null`), so that the first model costs nothing. Cross-validation follows the same strengths on each fold's other rows
and measures the loss on the rows held out; folds and the path itself run side by side, in threads.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .. import _checks, losses, penalties
from .._checks import Array
from ..blocks import RowBlock, as_block
from ..losses import Loss
from ..penalties import L1, Penalty
from . import certified
from .folds import Fold, draw, take
from .models import scaled
from .null import Null, null_model
from .problem import ConvergenceWarning, Problem, Solution
from .rows import as_rows

MOST_LINES = 25  # of the table


class CrossValidation(NamedTuple):
    """The mean loss on the rows held out, (folds, strengths)."""

    losses: Array

    @property
    def mean(self) -> Array:
        """The mean over folds."""
        return np.asarray(self.losses.mean(axis=0))

    @property
    def error(self) -> Array:
        """The standard error of that mean."""
        return np.asarray(self.losses.std(axis=0, ddof=1) / np.sqrt(len(self.losses)))

    @property
    def best(self) -> int:
        """The place of the strength with the least mean."""
        return int(np.argmin(self.mean))

    @property
    def one_se(self) -> int:
        """The place of the largest strength whose mean is within one standard error of the least."""
        return int(np.argmax(self.mean <= self.mean[self.best] + self.error[self.best]))


class PathModel(NamedTuple):
    """One model of a path."""

    strength: float
    coef: Array
    intercept: Any
    loss: Loss
    classes: Array | None

    def scores(self, X: Any) -> Array:
        """Return <x, w> + b of each row, one column a class for losses of several scores."""
        rows = X if isinstance(X, RowBlock) else as_block(X.to_numpy() if hasattr(X, "to_numpy") else X)
        return np.asarray(rows.times(self.coef) + self.intercept)

    def predict(self, X: Any) -> Array:
        """Return the class of the best score, or the predicted number (e^score for the Poisson loss)."""
        scores = self.scores(X)
        if self.classes is None:
            return np.exp(scores) if self.loss.name == "poisson" else scores
        return np.asarray(self.classes[scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0.0).astype(np.intp)])


@dataclass(frozen=True, eq=False, repr=False)
class Path:
    """Models for falling strengths of one penalty, what `path` returns; printed, it is a table.

    Attributes
    ----------
    strengths : what multiplies the penalty, falling
    coefs : weights, a sparse array with a column a strength; (features * classes) rows for losses of several scores
    intercepts : one a strength, a row of one a class for losses of several scores
    primal, dual : the objective of each model, and a lower bound on what any weights could have
    gaps : their relative distances
    nnz : weights that are not 0
    epochs : passes or steps that each solution took
    tol : the relative gap that was asked for
    cv : the `CrossValidation`, or None

    >>> import numpy as np, proxstream as ps
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 4))
    >>> found = ps.path(X, X[:, 0] - 0.5 * X[:, 1], loss="squared", penalty=ps.ElasticNet(0.9, 0.1), n_strengths=4)
    >>> isinstance(found, ps.Path), len(found), found.nnz
    (True, 4, array([0, 2, 2, 2]))
    """

    strengths: Array
    coefs: Any
    intercepts: Array
    primal: Array
    dual: Array
    nnz: Array
    epochs: Array
    loss: Loss
    penalty: Penalty
    tol: float
    shape: tuple[int, ...]
    classes: Array | None = None
    cv: CrossValidation | None = None

    def __len__(self) -> int:
        return len(self.strengths)

    @property
    def gaps(self) -> Array:
        """The relative duality gap of each model."""
        size = np.maximum(np.abs(self.primal), np.abs(self.dual))
        return (self.primal - self.dual) / np.where(size > 0.0, size, 1.0)

    def coef(self, i: int) -> Array:
        """Return the weights of the i-th strength, dense: (features,) or (features, classes)."""
        return np.asarray(self.coefs[:, [i]].toarray().reshape(self.shape))

    def model(self, i: int) -> PathModel:
        """Return the model of the i-th strength."""
        return PathModel(float(self.strengths[i]), self.coef(i), self.intercepts[i], self.loss, self.classes)

    @property
    def best(self) -> PathModel:
        """The model of the least cross-validated loss."""
        return self.model(self._validated().best)

    @property
    def one_se(self) -> PathModel:
        """The model of the largest strength within one standard error of the least cross-validated loss."""
        return self.model(self._validated().one_se)

    def _validated(self) -> CrossValidation:
        if self.cv is None:
            raise AttributeError("this path was not cross-validated: call path(..., cv=5)")
        return self.cv

    def __repr__(self) -> str:
        first, last = self.strengths[0], self.strengths[-1]
        return (
            f"<Path of {len(self)} strengths of {self.penalty!r} from {first:.3g} to {last:.3g}: "
            f"{self.nnz[0]} to {self.nnz[-1]} non-zero weights, largest relative gap {self.gaps.max():.1e}>"
        )

    def __str__(self) -> str:
        """Return a table of at most some 25 strengths, those that cross-validation chose among them."""
        marks = {} if self.cv is None else {self.cv.one_se: "one standard error", self.cv.best: "best"}
        step = max(1, -(-len(self) // MOST_LINES))
        shown = {*range(0, len(self), step), len(self) - 1, *marks}
        lines = [
            "place    strength  non-zero   objective  relative gap" + ("" if self.cv is None else "  held-out loss")
        ]
        for i, gap in enumerate(self.gaps):
            if i not in shown:
                continue
            proved = f"<= {self.tol:g}" if gap <= self.tol else f"{gap:.1e}"
            line = f"{i:5}  {self.strengths[i]:10.4g}  {self.nnz[i]:8}  {self.primal[i]:10.5g}  {proved:>12}"
            if self.cv is not None:
                line += f"  {self.cv.mean[i]:.4f} ± {self.cv.error[i]:.4f}"
            lines.append(f"{line}  {marks[i]}" if i in marks else line)
        return "\n".join(lines)


class _Settings(NamedTuple):
    solver: str
    tol: float
    max_epochs: int
    seed: int


def path(
    X: Any,
    y: Any,
    *,
    loss: Loss | str = "logistic",
    penalty: Penalty | None = None,
    n_strengths: int = 100,
    ratio: float = 1e-3,
    strengths: Any = None,
    tol: float = 1e-4,
    max_epochs: int = 1000,
    fit_intercept: bool = True,
    sample_weight: Any = None,
    cv: Any = None,
    solver: str = "auto",
    n_threads: int = 1,
    random_state: Any = None,
) -> Path:
    """Solve for many strengths of a penalty, from the least that leaves no weight downward.

    P_s(w, b) = sum_i p_i phi(<x_i, w> + b, y_i) + s Psi(w), the intercept b unpenalized, p_i the share of row i.

    Parameters
    ----------
    X : array, sparse matrix, frame or RowBlock
    y : labels of two classes for a binary loss, of any number for softmax and multiclass_hinge; else numbers
    loss : such as "logistic", "squared", "huber(0.5)", "softmax"
    penalty : the penalty's shape Psi, L1(1.0) if None: ElasticNet(0.9, 0.1), L1([...]) with a strength a feature, for
        several classes GroupL2(0.9) + L2(0.1)
    n_strengths : how many, evenly spaced in the logarithm
    ratio : of the smallest to the largest
    strengths : the strengths themselves, in place of n_strengths and ratio
    tol : relative duality gap of each model
    max_epochs : most passes or steps for each
    fit_intercept : whether there is an intercept
    sample_weight : what each row weighs
    cv : the number of folds, drawn class by class, or pairs of arrays (rows to learn from, rows held out)
    solver : as of CertifiedClassifier
    n_threads : threads, for the folds if there are any
    random_state : seed of the folds, and of solvers that visit rows in random order

    Returns
    -------
    Path

    >>> import numpy as np, proxstream as ps
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 30))
    >>> y = X[:, 0] - X[:, 1] + rng.logistic(size=200) > 0
    >>> found = ps.path(X, y, penalty=ps.ElasticNet(0.9, 0.1), n_strengths=10, ratio=0.1, cv=5, random_state=0)
    >>> found.nnz[:2], np.flatnonzero(found.one_se.coef)[:2], bool(found.gaps.max() <= 1e-4)
    (array([0, 2]), array([0, 1]), True)

    Reference: Friedman, Hastie and Tibshirani (2010), Regularization paths for generalized linear models via
    coordinate descent.
    """
    _checks.number("tol", tol, low=0.0, strict=True)
    _checks.integer("n_threads", n_threads, low=1)
    _checks.integer("max_epochs", max_epochs, low=1)
    shape = L1() if penalty is None else penalties.get(penalty)
    stated, classes = _state(X, y, losses.get(loss), shape, bool(fit_intercept), sample_weight)
    rng = np.random.default_rng(random_state)
    folds = draw(cv, stated.rows.y, rng, by_class=classes is not None)
    null = null_model(stated)
    grid = _grid(null, shape, n_strengths, ratio) if strengths is None else _told(strengths)
    settings = _Settings(solver, tol, max_epochs, int(rng.integers(2**31)))
    own_threads = 1 if folds else n_threads
    with ThreadPoolExecutor(min(n_threads, len(folds) + 1)) as pool:
        whole = pool.submit(lambda: _gather(_follow(stated, null, grid, settings, own_threads), stated))
        held_out = list(pool.map(lambda fold: _held_out(stated, fold, grid, settings), folds))
        kept = whole.result()
    validation = CrossValidation(np.array(held_out)) if folds else None
    found = Path(
        grid, **kept, loss=stated.loss, penalty=shape, tol=tol, shape=stated.shape, classes=classes, cv=validation
    )
    short = int(np.count_nonzero(found.gaps > tol))
    if short:
        warnings.warn(
            f"{short} of {len(found)} strengths ended above tol={tol:g}, with a relative duality gap of up to "
            f"{found.gaps.max():.2g}: raise max_epochs, tol or ratio, or scale the features",
            ConvergenceWarning,
            stacklevel=2,
        )
    return found


# -- what is solved ------------------------------------------------------------------------------


def _state(
    X: Any, y: Any, loss: Loss, penalty: Penalty, fit_intercept: bool, sample_weight: Any
) -> tuple[Problem, Array | None]:
    """Return the problem at strength 1, and the classes if there are any."""
    rows = as_rows(X, y, sample_weight)
    d = max(rows.check(), 0 if isinstance(X, RowBlock) else np.shape(X)[1])
    rows.check_finite()
    if len(rows.c) and not ((rows.c >= 0.0) & np.isfinite(rows.c)).all():
        raise ValueError("sample_weight must be finite and >= 0")
    if rows.n_rows == 0 or (len(rows.c) and not rows.c.any()):
        raise ValueError("there must be a row with a weight above 0, got none")
    classes, n_outputs = None, 1
    if loss.kind in ("binary", "multiclass"):
        classes, codes = np.unique(rows.y, return_inverse=True)
        if len(classes) < 2 or (loss.kind == "binary" and len(classes) > 2):
            accepted = "2 classes; softmax and multiclass_hinge take more" if loss.kind == "binary" else "2 or more"
            raise ValueError(f"y must have {accepted}, got {len(classes)} classes with loss {loss}")
        binary = loss.kind == "binary"
        n_outputs = 1 if binary else len(classes)
        rows = rows._replace(y=2.0 * codes - 1.0 if binary else codes.astype(np.float64))
    else:
        loss.check_labels(rows.y)
        rows = rows._replace(y=rows.y.astype(np.float64))
    problem = Problem(rows, d, loss, penalty, fit_intercept, n_outputs)
    penalty.check_shape(problem.shape)
    return problem, classes


def _grid(null: Null, penalty: Penalty, n_strengths: int, ratio: float) -> Array:
    _checks.integer("n_strengths", n_strengths, low=1)
    _checks.number("ratio", ratio, low=0.0, high=1.0, strict=True)
    if not np.isfinite(null.strength):
        raise ValueError(
            f"no strength of {penalty!r} brings all weights to 0: tell strengths, or take L1, ElasticNet or GroupL2 "
            "with a strength above 0 for every weight"
        )
    if null.strength == 0.0:
        raise ValueError("weights are 0 at every strength: no feature tells anything about y")
    return np.asarray(null.strength * ratio ** (np.arange(n_strengths) / max(n_strengths - 1, 1)))


def _told(strengths: Any) -> Array:
    told = _checks.vector("strengths", strengths).astype(np.float64)
    if told.ndim != 1 or len(told) == 0 or not (told > 0.0).all():
        raise ValueError(f"strengths must be one or more numbers > 0, got {strengths!r}")
    return np.unique(told)[::-1]


def _follow(problem: Problem, null: Null, grid: Array, settings: _Settings, n_threads: int) -> Iterator[Solution]:
    """Solve for one strength after the other, each from where the last ended."""
    last = None
    for strength in grid:
        stated = replace(problem, penalty=scaled(problem.penalty, float(strength)))
        if strength >= null.strength:
            last = null.solution(stated)
        else:
            last = certified.solve(
                stated,
                solver=settings.solver,
                tol=settings.tol,
                max_epochs=settings.max_epochs,
                seed=settings.seed,
                start=last,
                n_threads=n_threads,
            )
        yield last


def _gather(solutions: Iterable[Solution], problem: Problem) -> dict[str, Any]:
    """Return what a path keeps of solutions, of which only one is held at a time."""
    from scipy.sparse import csc_array

    at, values, rest = [], [], []
    for found in solutions:
        flat = np.asarray(found.coef).ravel()
        at.append(np.flatnonzero(flat))
        values.append(flat[at[-1]])
        rest.append((found.intercept, found.primal, found.dual, len(at[-1]), found.history[-1].epoch))
    indptr = np.cumsum([0, *map(len, at)])
    coefs = csc_array(
        (np.concatenate(values), np.concatenate(at), indptr), shape=(int(np.prod(problem.shape)), len(at))
    )
    names = ("intercepts", "primal", "dual", "nnz", "epochs")
    return {"coefs": coefs, **dict(zip(names, map(np.array, zip(*rest, strict=True)), strict=True))}


def _held_out(problem: Problem, fold: Fold, grid: Array, settings: _Settings) -> list[float]:
    """Return the mean loss on a fold's rows of the models learned from the others."""
    learn, held = (replace(problem, rows=take(problem.rows, at)) for at in fold)
    solutions = _follow(learn, null_model(learn), grid, settings, 1)
    return [
        float(held.shares @ held.loss.value(held.scores(found.coef, found.intercept), held.labels))
        for found in solutions
    ]
