"""Regularization paths: one model for each of many strengths of a penalty, from the largest down.

    P_s(w, b) = sum_i p_i phi(<x_i, w> + b, y_i) + s Psi(w)         s = s_max, ..., ratio * s_max

s_max is the smallest strength at which all weights are 0 (`lambda_max`), so the first model costs nothing. Each model
is the starting point of the next and has its own certificate. Cross-validation solves for the same strengths on the
training rows of each fold and computes the loss on the held-out rows; folds and the path itself run in threads.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..core import losses, penalties, validation as _checks
from ..core.losses import Loss
from ..core.penalties import L1, Penalty
from ..core.validation import Array
from ..data.labels import LabelEncoder
from ..data.rowblock import RowBlock, as_block
from . import dispatch
from .adapters import as_rows
from .centring import Frame, centred, outward
from .cross_validation import CrossValidation, Fold, make_folds
from .lambda_max import Null, null_model
from .problem import ConvergenceWarning, Problem, Solution
from .strengths import strength_grid

MAX_TABLE_LINES = 25


class PathModel(NamedTuple):
    """One model of a regularization path."""

    strength: float
    coef: Array
    intercept: Any
    loss: Loss
    classes: Array | None

    def scores(self, X: Any) -> Array:
        """Return <x, w> + b of each row, one column per class for multiclass losses."""
        rows = X if isinstance(X, RowBlock) else as_block(X.to_numpy() if hasattr(X, "to_numpy") else X)
        rows.check()
        return rows.scores(self.coef, self.intercept)

    def predict(self, X: Any) -> Array:
        """Return the class of the best score, or the predicted mean."""
        scores = self.scores(X)
        if self.classes is None:
            return np.asarray(self.loss.mean(scores))
        return np.asarray(self.classes[scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0.0).astype(np.intp)])


@dataclass(frozen=True, eq=False, repr=False)
class RegularizationPath:
    """Models for decreasing strengths of one penalty, returned by `regularization_path`; prints as a table.

    Attributes
    ----------
    strengths : factors of the penalty, decreasing
    coefs : weights, a sparse array with one column per strength; (features * classes) rows for multiclass losses
    intercepts : one per strength; one row of an intercept per class for multiclass losses
    primal, dual : the objective of each model, and a lower bound on the objective of any weights
    gaps : relative duality gaps
    nnz : number of non-zero weights
    epochs : passes or steps of each solution
    tol : the requested relative gap
    cv : the `CrossValidation`, or None

    >>> import numpy as np, proxstream as ps
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 4))
    >>> path = ps.regularization_path(X, X[:, 0] - 0.5 * X[:, 1], loss="squared", n_strengths=4)
    >>> isinstance(path, ps.RegularizationPath), len(path), path.nnz
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
            raise AttributeError("this path was not cross-validated: call regularization_path(..., cv=5)")
        return self.cv

    def __repr__(self) -> str:
        first, last = self.strengths[0], self.strengths[-1]
        return (
            f"<RegularizationPath of {len(self)} strengths of {self.penalty!r} from {first:.3g} to {last:.3g}: "
            f"{self.nnz[0]} to {self.nnz[-1]} non-zero weights, largest relative gap {self.gaps.max():.1e}>"
        )

    def __str__(self) -> str:
        """Return a table of about 25 strengths at most, including those that cross-validation chose."""
        marks = {} if self.cv is None else {self.cv.one_se: "one standard error", self.cv.best: "best"}
        step = max(1, -(-len(self) // MAX_TABLE_LINES))
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


def regularization_path(
    X: Any,
    y: Any,
    *,
    loss: Loss | str = "logistic",
    penalty: Penalty | str = L1(1.0),  # noqa: B008  (immutable)
    n_strengths: int = 100,
    ratio: float = 1e-3,
    strengths: Any = None,
    tol: float = 1e-4,
    max_epochs: int = 1000,
    fit_intercept: bool = True,
    sample_weight: Any = None,
    cv: Any = None,
    groups: Any = None,
    solver: str = "auto",
    n_threads: int = 1,
    random_state: Any = None,
) -> RegularizationPath:
    """Solve for many strengths of a penalty, from the smallest that leaves no weight down to `ratio` of it.

    P_s(w, b) = sum_i p_i phi(<x_i, w> + b, y_i) + s Psi(w), the intercept b unpenalized, p_i the share of row i.

    Parameters
    ----------
    X : array, sparse matrix, data frame or RowBlock
    y : labels: two classes for a binary loss, two or more for softmax and multiclass_hinge, else numbers
    loss : such as "logistic", "squared", "huber(0.5)", "softmax"
    penalty : the shape Psi, or its string: L1(1.0), "elastic_net(0.9, 0.1)", L1([...]) with one strength per feature,
        or for several classes GroupL2(0.9) + L2(0.1)
    n_strengths : how many, evenly spaced on a logarithmic scale
    ratio : smallest strength / largest strength
    strengths : the strengths, instead of n_strengths and ratio
    tol : relative duality gap of each model
    max_epochs : limit of passes or steps for each model
    fit_intercept : whether to fit an unpenalized intercept
    sample_weight : weight of each row
    cv : number of folds (stratified for classes), a scikit-learn splitter such as KFold(5), or pairs of arrays
        (training rows, held-out rows)
    groups : group of each row, for a splitter that uses them, such as GroupKFold
    solver : as for CertifiedClassifier
    n_threads : threads, shared by the folds if there are any
    random_state : seed of the folds, and of solvers that visit rows in random order

    Returns
    -------
    RegularizationPath

    >>> import numpy as np, proxstream as ps
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 30))
    >>> y = X[:, 0] - X[:, 1] + rng.logistic(size=200) > 0
    >>> path = ps.regularization_path(X, y, penalty=ps.L1(), n_strengths=10, ratio=0.1, cv=5, random_state=0)
    >>> path.nnz[:2], np.flatnonzero(path.one_se.coef)[:2], bool(path.gaps.max() <= 1e-4)
    (array([0, 2]), array([0, 1]), True)

    Reference: Friedman, Hastie and Tibshirani (2010), Regularization paths for generalized linear models via
    coordinate descent.
    """
    _checks.number("tol", tol, low=0.0, strict=True)
    _checks.integer("n_threads", n_threads, low=1)
    _checks.integer("max_epochs", max_epochs, low=1)
    shape = penalties.get(penalty)
    stated, classes = _state(X, y, losses.get(loss), shape, bool(fit_intercept), sample_weight)
    rng = np.random.default_rng(random_state)
    folds = make_folds(cv, stated.rows.y, rng, stratify=classes is not None, groups=groups)
    stated, frame = centred(stated)
    null = null_model(stated)
    grid = strength_grid(null.strength, shape, n_strengths, ratio) if strengths is None else _given_grid(strengths)
    settings = _Settings(solver, tol, max_epochs, int(rng.integers(2**31)))
    with ThreadPoolExecutor(min(n_threads, len(folds) + 1)) as pool:
        followed = _follow(stated, null, grid, settings, 1 if folds else n_threads)
        found = followed if frame is None else _outward(followed, stated, frame, grid, tol)
        gathered = pool.submit(lambda: _gather(found, stated))
        held_out = list(pool.map(lambda fold: _held_out(stated, fold, grid, settings), folds))
        arrays = gathered.result()
    validation = CrossValidation(np.array(held_out)) if folds else None
    path = RegularizationPath(
        grid, **arrays, loss=stated.loss, penalty=shape, tol=tol, shape=stated.shape, classes=classes, cv=validation
    )
    unproved = int(np.count_nonzero(path.gaps > tol))
    if unproved:
        warnings.warn(
            f"{unproved} of {len(path)} strengths ended above tol={tol:g}, with a relative duality gap of up to "
            f"{path.gaps.max():.2g}: raise max_epochs, tol or ratio, or scale the features",
            ConvergenceWarning,
            stacklevel=2,
        )
    return path


# -- the problems of a path ----------------------------------------------------------------------


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
        classes = np.unique(rows.y)
        if len(classes) < 2 or (loss.kind == "binary" and len(classes) > 2):
            accepted = "2 classes; softmax and multiclass_hinge take more" if loss.kind == "binary" else "2 or more"
            raise ValueError(f"y must have {accepted}, got {len(classes)} classes with loss {loss}")
        encoder, n_outputs = LabelEncoder(classes), 1 if loss.kind == "binary" else len(classes)
        rows = rows._replace(y=encoder.targets(encoder.encode(rows.y), n_outputs))
    else:
        loss.check_labels(rows.y)
        rows = rows._replace(y=rows.y.astype(np.float64))
    problem = Problem(rows, d, loss, penalty, fit_intercept, n_outputs)
    penalty.check_shape(problem.shape)
    return problem, classes


def _given_grid(strengths: Any) -> Array:
    grid = _checks.vector("strengths", strengths).astype(np.float64)
    if grid.ndim != 1 or len(grid) == 0 or not (grid > 0.0).all():
        raise ValueError(f"strengths must be one or more numbers > 0, got {strengths!r}")
    return np.unique(grid)[::-1]


def _follow(problem: Problem, null: Null, grid: Array, settings: _Settings, n_threads: int) -> Iterator[Solution]:
    """Solve for one strength after another, each starting at the previous solution."""
    last = None
    for strength in grid:
        stated = replace(problem, penalty=problem.penalty.scaled(float(strength)))
        if strength >= null.strength:
            last = null.solution(stated)
        else:
            last = dispatch.solve(
                stated,
                solver=settings.solver,
                tol=settings.tol,
                max_epochs=settings.max_epochs,
                seed=settings.seed,
                start=last,
                n_threads=n_threads,
            )
        yield last


def _outward(
    solutions: Iterable[Solution], problem: Problem, frame: Frame, grid: Array, tol: float
) -> Iterator[Solution]:
    """Return solutions of a centred problem in the coordinates of the original data."""
    for strength, found in zip(grid, solutions, strict=True):
        stated = replace(problem, penalty=problem.penalty.scaled(float(strength)))
        yield outward(stated, frame, found, tol)


def _gather(solutions: Iterable[Solution], problem: Problem) -> dict[str, Any]:
    """Return the arrays of a `RegularizationPath`, holding one dense solution at a time."""
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
    """Return the mean loss on a fold's held-out rows for each strength."""
    learn, held = (replace(problem, rows=problem.rows.take(at)) for at in fold)
    solutions = _follow(learn, null_model(learn), grid, settings, 1)
    return [
        float(held.shares @ held.loss.value(held.scores(found.coef, found.intercept), held.labels))
        for found in solutions
    ]
