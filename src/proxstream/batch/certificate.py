"""How far from optimal is a model? A certificate for any linear model, in memory or over a stream.

In memory the proof comes in two steps: the alphas that the model's own scores suggest (`scored`), and then those of a
better model, found from it in a bounded number of passes (`shadow`). Rows of a stream are kept in memory if there is
room for them; otherwise only the first step is made, in some more passes over the stream.

Without a penalty the optimum may not exist: separable classes have weights of any size with ever smaller losses. Then
the model is compared with all weights whose norm is not above its own: Psi(w) = 0 for ||w|| <= R, else infinity.

One class against the rest is one problem per class: primal, dual and gap are sums. With an intercept, columns far from
zero are centred first (`centring`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..core.penalties import L2Ball, Penalty
from ..core.validation import Array, integer, number
from ..data.rowblock import RowBlock
from .adapters import InMemory, LinearModel, Stream, as_linear, as_rows, prepare_rows
from .centring import frame_of
from .dual import DualPoint, dual_point
from .features import certain_features
from .problem import Problem
from .scored import Scored
from .shadow import Progress, Shadow

TIGHT = 1e-6  # a relative gap that needs no further work
ROOM = 1 << 30  # bytes


@dataclass(frozen=True)
class Certificate:
    """What is proved of a model: P(w), a lower bound on every P, and their distance.

    No weights whatsoever have an objective below `dual`; so `gap` bounds how much could still be gained. `reached` is
    the least objective that was found on the way: at least `primal - reached` can be gained. `history` has the best
    bound after so many passes, `penalty` is the one of the objective, and `in_memory` is False for a stream that was
    too large to improve the bound.

    `zeros` and `support` are the features of which the optimum is known: zero in every optimum, and in none. All others
    are undecided. They need a smooth loss, a penalty of l1 and l2 parts, and rows in memory, to which the certificate
    refers for that; otherwise both are empty.

    >>> Certificate(primal=0.5, dual=0.4, gap=0.1).relative_gap
    0.2
    """

    primal: float
    dual: float
    gap: float
    reached: float = np.nan
    penalty: Penalty | None = None
    history: tuple[Progress, ...] = field(default=(), repr=False, compare=False)
    in_memory: bool = field(default=True, compare=False)
    _shadows: tuple[Shadow, ...] = field(default=(), repr=False, compare=False)

    @property
    def zeros(self) -> Array:
        """Features that have weight 0 in every optimum, for every output; found when first asked for."""
        return self._certain[0]

    @property
    def support(self) -> Array:
        """Features whose weight is 0 in no optimum, for some output; found when first asked for."""
        return self._certain[1]

    @cached_property
    def _certain(self) -> tuple[Array, Array]:
        masks = [certain_features(shadow) for shadow in self._shadows]
        if not masks:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        zeros, support = (np.array(each) for each in zip(*masks, strict=True))
        return np.flatnonzero(zeros.all(axis=0)), np.flatnonzero(support.any(axis=0))

    @property
    def present(self) -> Array:
        """Features with an entry in some row; empty where rows were not kept."""
        if not self._shadows:
            return np.empty(0, np.int64)
        return np.unique(self._shadows[0].problem.rows.indices).astype(np.int64)

    @property
    def relative_gap(self) -> float:
        """The gap as a part of the larger of |primal| and |dual|, which solvers compare with `tol`."""
        size = max(abs(self.primal), abs(self.dual))
        return self.gap / size if size > 0.0 else 0.0


def certificate(
    model: Any,
    X: Any,
    y: Any = None,
    loss: Any = None,
    penalty: Any = None,
    sample_weight: Any = None,
    passes: int = 10,
    tol: float = TIGHT,
    memory: int = ROOM,
) -> Certificate:
    """Return a proof of how far from optimal a linear model is on data.

    The gap is an upper bound on P(model) - min P, where

        P(w, b) = (sum_i c_i phi(<w, x_i> + b, y_i)) / (sum_i c_i) + Psi(w)

    whatever produced the model. The model's own scores suggest dual variables, which prove the more the nearer the
    model is to the optimum; the solver of `CertifiedClassifier` then improves them, starting from the model, until the
    gap is close to the truth or `passes` are over. For a loss and penalty without a solver the first bound is the
    result.

    Without any penalty the optimum may not exist. Then the minimum is over all w with ||w||_2 <= R, R the norm of the
    model's own weights (1 if they are 0), and `penalty` of the result is `L2Ball(R)`.

    Parameters
    ----------
    model : estimator, learner, or pair (coef, intercept)
        An estimator or learner of this package, a linear model of scikit-learn, or weights as they are: coef of shape
        (n_features,), (1, n_features) or (n_classes, n_features), intercept a number, an array, or None where there
        is none in the objective. A learner with penalty_weight="once" is certified by Psi/n. A pipeline of scikit-learn
        that ends in such a model is certified on the rows that its other steps make of X.
    X : array, sparse matrix or frame, or a stream
        A stream is an iterable that can be read again and gives (X, y), (X, y, sample_weight) or RowBlock.
    y : array, for a matrix X
        Labels as the model knows them; for a bare model as the loss does (-1 and +1, numbers, or 0..k-1).
    loss : str or Loss, optional
        Required for a bare model, and if the model's own cannot be inferred.
    penalty : Penalty, optional
        Likewise.
    sample_weight : array, for a matrix X
    passes : int
        Epochs of the solver at most, for each output; 0 leaves the bound of the model's scores. The interior-point
        method (losses with kinks) cannot start from the model, and makes up to six steps for each of them.
    tol : float
        A relative gap that is small enough.
    memory : int
        Bytes up to which the rows of a stream are kept. A larger stream is read some five to ten times, and its bound
        is that of the model's scores.

    Returns
    -------
    Certificate with primal, dual and gap

    Examples
    --------
    >>> import numpy as np, proxstream as ps
    >>> from sklearn.linear_model import Lasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 5))
    >>> y = X[:, 0] + 0.1 * rng.normal(size=100)
    >>> proof = ps.certificate(Lasso(alpha=0.1, tol=1e-9).fit(X, y), X, y)
    >>> round(proof.primal, 4), bool(0 <= proof.gap < 1e-6)
    (0.0972, True)
    >>> ps.certificate((np.zeros(5), 0.0), X, y, loss="squared", penalty=ps.L1(0.1)).gap > 0.1
    True

    Reference: Shalev-Shwartz and Zhang (2012), eq. 2 and the duality gap after it.
    """
    integer("passes", passes, low=0)
    number("tol", tol, low=0.0)
    integer("memory", memory, low=0)
    model, X = _transformed(model, X)
    if hasattr(model, "_parts_to_certify"):
        model, X, y = model._parts_to_certify(X, y)
    linear = _bounded(as_linear(model, loss, penalty))
    if y is not None or hasattr(X, "shape") or isinstance(X, RowBlock):
        rows = prepare_rows(as_rows(X, y, sample_weight), linear, all_rows=True)
        return _in_memory(rows, linear, passes, tol)
    if sample_weight is not None:
        raise TypeError("a stream brings its own weights: sample_weight goes with a matrix X")
    stream = Stream(X, linear)
    kept = _kept(stream, memory) if passes else None
    return _in_memory(kept, linear, passes, tol) if kept is not None else _streamed(stream, linear)


def _transformed(model: Any, X: Any) -> tuple[Any, Any]:
    """Return the last step of a pipeline and the rows that the other steps make of X."""
    if not hasattr(model, "steps"):
        return model, X
    if not hasattr(X, "__len__") and not hasattr(X, "shape"):
        raise TypeError("a pipeline is certified on a matrix X; transform a stream yourself and pass the last step")
    *before, (_, last) = model.steps
    for _, step in before:
        if step not in (None, "passthrough"):
            X = step.transform(X)
    return last, X


def _bounded(linear: LinearModel) -> LinearModel:
    """Return the model with a bound on the norm as its penalty if it has none."""
    terms = linear.penalty_at(1.0).terms(linear.coef.shape)
    if not terms.only_l1_l2 or np.any(terms.l1) or np.any(terms.l2):
        return linear
    coef = linear.coef.astype(np.float64)  # a norm in 32 bits may be below that of the model
    problems = coef.T if linear.loss.kind != "multiclass" and coef.ndim == 2 else coef.reshape(1, -1)
    norm = float(np.max(np.linalg.norm(problems, axis=1)))
    return linear._replace(penalty=L2Ball(norm * (1.0 + 1e-12) if norm > 0.0 else 1.0))


# -- rows in memory -------------------------------------------------------------------------------


def _kept(stream: Stream, memory: int) -> RowBlock | None:
    """Return all rows of a stream, as the solvers take them; None if they take more than `memory` bytes."""
    blocks, room = [], memory
    for rows in stream.prepared():
        room -= sum(part.nbytes for part in rows)
        if room < 0:
            return None
        blocks.append(RowBlock(*(np.array(part) for part in rows)))
    return RowBlock.concat(blocks) if blocks else None


def _in_memory(rows: RowBlock, linear: LinearModel, passes: int, tol: float) -> Certificate:
    frame = frame_of(rows, linear.loss) if linear.fit_intercept else None
    if frame is not None:
        rows = frame.rows(rows)
        linear = linear._replace(intercept=frame.inward(linear.coef, linear.intercept))
    source = InMemory(rows, linear)
    scored = Scored(source, linear)
    shadows = [_shadow(k, scored, source) for k in range(len(scored.primals))]
    for shadow in shadows:
        if passes:
            shadow.improve(passes, tol)
    return _summed(shadows, scored.penalty)


def _shadow(k: int, scored: Scored, source: InMemory) -> Shadow:
    """Return problem k with the model's weights and the dual points that are known for it."""
    linear, rows = scored.linear, source.rows
    alpha, labels = scored.alpha(k, rows, source.scores)
    coef, intercept, outputs = scored.coef, linear.intercept, linear.n_outputs
    own = linear.alpha if linear.alpha is not None and np.size(linear.alpha) else None
    if scored.separate:
        rows, outputs = rows._replace(y=labels), 1
        if coef.ndim == 2:
            coef, intercept = np.ascontiguousarray(coef[:, k]), float(np.broadcast_to(intercept, linear.n_outputs)[k])
            own = None if own is None else np.asarray(own)[:, k]
    problem = Problem(rows, len(coef), linear.loss, scored.penalty, linear.fit_intercept, outputs)
    points: list[DualPoint] = [dual_point(problem, alpha)]
    if own is not None and len(own) == rows.n_rows:
        points.append(dual_point(problem, np.asarray(own)))
    return Shadow(problem, coef, intercept, float(scored.primals[k]), points)


def _summed(shadows: list[Shadow], penalty: Penalty) -> Certificate:
    """Return the certificate of all problems together."""
    steps = max(len(shadow.history) for shadow in shadows)
    each = [[*shadow.history, *[shadow.history[-1]] * (steps - len(shadow.history))] for shadow in shadows]
    history = tuple(
        Progress(max(p.passes for p in step), sum(p.dual for p in step), sum(p.gap for p in step))
        for step in zip(*each, strict=True)
    )
    last = history[-1]
    primal, reached = sum(s.primal for s in shadows), sum(s.least for s in shadows)
    return Certificate(primal, last.dual, last.gap, reached, penalty, history, _shadows=tuple(shadows))


def _streamed(stream: Iterable[Any], linear: LinearModel) -> Certificate:
    """Return the certificate that the model's scores suggest, with no more memory than some vectors of weights."""
    scored = Scored(stream, linear)  # type: ignore[arg-type]
    primal = float(scored.primals.sum())
    dual = min(scored.proved(), primal)
    gap = primal - dual
    return Certificate(primal, dual, gap, primal, scored.penalty, (Progress(0, dual, gap),), in_memory=False)
