"""Newton's method on the primal: losses that bend, under L2 with one strength or one per feature.

    P(w, b) = sum_i p_i phi(z_i, y_i) + sum_j (mu_j / 2) w_j^2        z = X w + b
    g = X's + mu w          s_i = p_i phi'(z_i)                        (1)
    H = X'DX + diag(mu)     D_i = p_i phi''(z_i)

The intercept is a feature that is 1 in every row and has mu = 0. A step solves H d = -g (`curvature`) and then
minimizes P along d, which costs no pass over the data: scores move along X d. Where phi'' jumps (squared hinge, Huber)
the same steps are a generalized Newton method, and the line search makes them descend.

The softmax has a score for each class and a small matrix phi'' for each row; `JointPasses` has its passes, the rest is
the same.

The proof. alpha_i = -phi'(z_i) is the dual point that belongs to the weights. There is equality in Fenchel and Young's
phi(z) + phi*(phi'(z)) >= z phi'(z), and so without an intercept

    P(w) - D(alpha) = sum_j g_j^2 / (2 mu_j)                           (2)

With one, alpha has to sum to 0, too. Where (2) lets a point pass, b is made the exact minimizer given w, whose
condition is that same sum; `dual` takes away what rounding leaves of it. Until (2) lets a point pass, the dual value is
the one of alpha = 0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core.validation import Array
from .. import narrow
from ..dual import DualPoint, dual_point
from ..problem import Problem, Solution, Trace
from .curvature import (
    LOOSEST,
    TIGHTEST,
    Diagonal,
    Factorized,
    JointFactorized,
    Point,
    Preconditioner,
    direction,
    worth_factorizing,
)
from .passes import JointPasses, Passes

FLAT = 0.3  # the slope that a line search leaves, in parts of the first
EXACT = 1e-14  # the same where the intercept is made exact
MOST_LOOKS = 80
SLOW = 3  # looks that do not halve the bracket
SHORT, LONG = 0.1, 4.0  # steps outside this range show a poor model
STALLED = 20  # steps that neither lower P nor (2) by this part: rounding hides all further progress
PROGRESS = 1e-13
SHORT_OF_TOL = 0.3  # a direction aims at this part of the gap that is wanted


def solve(
    problem: Problem,
    *,
    tol: float = 1e-4,
    max_epochs: int = 1000,
    seed: int = 0,
    start: Solution | None = None,
    n_threads: int = 1,
) -> Solution:
    """Solve a problem with a loss that bends and an L2 penalty to a relative duality gap of `tol`.

    An epoch is a step of Newton's method. `seed` is for solvers that draw; this one does not.
    """
    joint = problem.loss.kind == "multiclass"
    if not joint:
        l1, l2 = np.zeros(problem.shape), np.broadcast_to(problem.penalty.terms(problem.shape).l2, problem.shape)
        if narrow.suits(problem, l1, l2):
            solution, ended = narrow.solve(problem, l1, np.array(l2), Trace(tol), max_epochs, start, n_threads)
            if ended:
                return solution
            start, max_epochs = solution, max_epochs - len(solution.history)
    with (JointPasses if joint else Passes)(problem, n_threads) as passes:
        return (_JointNewton if joint else _Newton)(problem, passes, tol).run(max_epochs, start)


class _Newton:
    """The current weights and the steps on them."""

    def __init__(self, problem: Problem, passes: Passes, tol: float) -> None:
        self.problem, self.passes, self.trace = problem, passes, Trace(tol)
        mu = np.empty((problem.n_features + 1, *problem.shape[1:]))
        mu[:-1] = problem.penalty.terms(problem.shape).l2
        mu[-1] = 1.0 - passes.one  # without an intercept its weight has no slope and stays 0
        self.mu, self.w = mu.ravel(), np.zeros(passes.size)
        self.features = slice(0, passes.size - passes.outputs)
        zero = np.zeros((passes.n, *problem.shape[1:]))
        self.proof: DualPoint | None = None  # the best one, with an intercept
        self.trace.best_dual = -float(problem.shares @ problem.loss.conjugate(zero, problem.labels))

    def run(self, max_epochs: int, start: Solution | None) -> Solution:
        """Make steps until the gap is proved, or no step lowers P any more."""
        passes = self.passes
        if start is not None:
            self.w[self.features] = start.coef.ravel()
            self.w[self.features.stop :] = passes.one * np.asarray(start.intercept)
        elif passes.one:
            self._recentre(passes.times(self.w))
        M = self._preconditioner()
        iterations, norm, step, last = 0, 0.0, 1.0, max_epochs == 0
        lowest, smallest, idle = np.inf, np.inf, 0
        z = passes.times(self.w)
        for epoch in range(max_epochs + 1):
            at, done = self._certified(epoch, last, z)
            if done or last or self.trace.stalled:
                break
            gap = self._gap(at)
            falls = lowest - PROGRESS * abs(lowest) > at.P or gap < (1.0 - PROGRESS) * smallest
            lowest, smallest, idle = min(lowest, at.P), min(smallest, gap), 0 if falls else idle + 1
            if passes.outputs == 1 and not (SHORT < step < LONG and at.D.any()):
                at = at._replace(D=np.maximum(at.D, self._secants(at)))
            M.update(at.D, iterations)
            downhill = M.solve(-at.g)
            before, norm = norm, float(np.sqrt(-(at.g @ downhill)))
            leave = min(LOOSEST, max(TIGHTEST, 0.9 * (norm / before) ** 2)) if before else LOOSEST
            enough = SHORT_OF_TOL * self.trace.tol * abs(at.P)
            d, t, iterations = direction(passes, M, at, self.mu, downhill, leave, enough)
            step = self._step(at, d, t)
            self.w += step * d
            z = at.z + step * t
            last = step == 0.0 or epoch + 1 == max_epochs or idle >= STALLED
        alpha = -self.problem.loss.slope(at.z, self.problem.labels)
        if passes.one:
            _, alpha, v = self.proof or dual_point(self.problem, alpha, search=False)
        else:
            v = passes.transposed((alpha.T * self.problem.shares).T)[self.features].reshape(self.problem.shape)
        coef, intercept = self.w[self.features].reshape(self.problem.shape), self.w[self.features.stop :]
        return Solution(
            coef.copy(),
            intercept.copy() if len(intercept) > 1 else float(intercept[0]),
            alpha,
            self.trace.history,
            done,
            v,
        )

    def _preconditioner(self) -> Preconditioner:
        return (Factorized if worth_factorizing(self.passes) else Diagonal)(self.passes, self.mu)

    def _expand(self, z: Array) -> Point:
        """Return P to second order at w, whose scores are z."""
        loss, s, D = self.passes.expand(z)
        ridge = self.mu * self.w
        g = self.passes.transposed(s)
        g += ridge
        return Point(z, s, D, g, loss + 0.5 * float(ridge @ self.w))

    def _secants(self, at: Point) -> Array:
        """Return p phi'^2 / (2 phi): the curvature of the parabola with minimum 0 that has a row's value and slope.

        Where a loss is linear, phi'' = 0 gives no estimate of the distance to the minimum, but this does. It is used
        far from the minimum, where Newton's method does not yet work.
        """
        value = self.problem.loss.value(at.z, self.problem.labels)
        ok = (value > 0.0) & np.isfinite(value) & (self.passes.p > 0.0)
        return np.asarray(np.divide(at.s**2, 2.0 * self.passes.p * value, out=np.zeros_like(at.s), where=ok))

    def _gap(self, at: Point) -> float:
        """Return (2)."""
        g = at.g[self.features]
        return 0.5 * float(g @ (g / self.mu[self.features]))

    def _certified(self, epoch: int, last: bool, z: Array) -> tuple[Point, bool]:
        """Return P at w, and whether the gap there is small enough; with an intercept w's may move for that.

        Scores z that were moved along with the weights have rounding errors of all steps: they prove nothing. Where (2)
        lets them pass, everything is computed from w alone.
        """
        at, dual = self._expand(z), -np.inf
        if last or self._gap(at) <= self.trace.aim * abs(at.P):
            if self.passes.one:
                self._recentre(at.z - self.w[self.features.stop :])
            at = self._expand(self.passes.times(self.w))
            dual = at.P - self._gap(at)
            if self.passes.one:
                alpha = -self.problem.loss.slope(at.z, self.problem.labels)
                point = dual_point(self.problem, alpha, search=False)
                self.proof = point if self.proof is None else max(self.proof, point, key=lambda one: one.value)
                dual = point.value
        return at, self.trace.certify(epoch, at.P, dual, int(np.count_nonzero(self.w[self.features])))

    def _recentre(self, z: Array) -> None:
        """Make the intercept the minimizer for scores z without one."""
        ones = np.ones(self.passes.n)
        self.w[-1] += minimize(lambda b: self.passes.along(z, ones, self.w[-1] + b), EXACT)

    def _step(self, at: Point, d: Array, t: Array) -> float:
        """Return how far to go along d."""
        ridge = self.mu * d
        bend, slope, square = float(ridge @ d), float(ridge @ self.w), float((self.mu * self.w) @ self.w)

        def along(step: float) -> Array:
            if step == 0.0:  # known
                return np.array([at.P, float(at.g @ d), np.nan])
            squares = np.array([0.5 * square + step * slope + 0.5 * step * step * bend, slope + step * bend, bend])
            return squares + self.passes.along(at.z, t, step)

        return minimize(along, FLAT, first=1.0)


class _JointNewton(_Newton):
    """The same for the softmax, whose weights are those of all classes."""

    passes: JointPasses

    def _preconditioner(self) -> Preconditioner:
        return (JointFactorized if self.passes.narrow else Diagonal)(self.passes, self.mu)

    def _recentre(self, z: Array) -> None:
        self.w[self.features.stop :] = self.passes.centred(z, self.w[self.features.stop :])


def minimize(f: Callable[[float], Array], flat: float, first: float | None = None) -> float:
    """Return an x that nearly minimizes a convex function; f returns its value, slope and curvature.

    Newton's method between the points known to be too low and too high, with a halving of their distance where it is
    slow: down the far side of an exponential function it goes by 1 a step. It ends where the slope is `flat` of the one
    at 0 and the value no larger than there; x = 0 if rounding hides every such point.

    >>> minimize(lambda x: np.array([x * x - x, 2.0 * x - 1.0, 2.0]), 1e-9)
    0.5
    """
    value, slope, curvature = map(float, f(0.0))
    if slope == 0.0:
        return 0.0
    sign = -1.0 if slope > 0.0 else 1.0  # the side to go to
    low, high, width, slow = 0.0, np.inf, np.inf, 0
    x = first if first is not None else abs(slope) / curvature if curvature > 0.0 else 1.0
    for _ in range(MOST_LOOKS):
        v, s, c = map(float, f(sign * x))
        s *= sign
        if abs(s) <= flat * abs(slope) and v <= value:
            return sign * x
        if s < 0.0 and v <= value:
            low = x
        else:
            high = x
        slow, width = (slow + 1, width) if high - low > 0.5 * width else (0, high - low)
        x = x - s / c if c > 0.0 and np.isfinite(s) and np.isfinite(c) else np.inf
        if not low < x < high or slow > SLOW:
            slow = 0
            x = 0.5 * (low + high) if np.isfinite(high) else 4.0 * low
            if x in (low, high):
                break
    return sign * low
