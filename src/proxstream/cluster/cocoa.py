"""CoCoA+: Prox-SDCA over partitions of the rows, which see only the sum of each other's dual variables.

    D(alpha) = -sum_i p_i phi*(-alpha_i, y_i) - Psi*(v),      v = sum_k v_k,      v_k = sum_(i in k) p_i alpha_i x_i

In a round each of the K partitions moves its own alphas as if the others did not move, and all moves are added. The
safe bound sigma' = K keeps them from overshooting together: for any z_k that add up to v and any w,

    <v, w> - Psi(w) = sum_k (<z_k, w> - Psi(w)/K) <= sum_k (Psi/K)*(z_k),      so     Psi*(v) <= sum_k (Psi/K)*(z_k)

with equality where all z_k = v/K, since then each (Psi/K)*(z_k) = Psi*(v)/K. A round begins there, at z_k = v/K plus
what the partition changes in v_k; so whatever partitions gain on the right, D gains. (With squares alone this is the
paper's sigma' ||v_k||^2 for gamma = 1; here it holds for every convex Psi, and uses what is not quadratic in Psi*.) So
a partition's problem is that of Prox-SDCA with a K-th of the penalty, and its kernels are those of the local solver.

Momentum. A round minimizes a bound that touches -D at the point where it starts, as a step of the gradient method
does, and takes momentum as that does: z_k starts at y/K + v_k - y_k, where y_k = v_k + beta (v_k - its last value) and
y is the sum of all y_k. Partitions know their own y_k, so this costs one more vector to them. Momentum restarts when
a round turns back: sum_k <y_k - v_k+, v_k+ - v_k> > 0 in the metric of the bound. In a trial with sparse rows and the
logistic loss 22 rounds became 10 at K = 2, and 84 became 22 at K = 8.

Intercept. As in `proxstream.batch.sdca.run` a feature of value 1 with a strength mu that is not in the objective, whose
center moves to b after each round: the method of multipliers for sum_i p_i alpha_i = 0.

The certificate is for the stated objective and sums over all partitions: weights w = grad Psi*(v), with v recomputed
from all alphas in every round; mean losses at w; conjugates at alphas that are balanced for the intercept and scaled
into the domain of Psi*. Positive and negative alphas give a pull each, so a balanced v needs no further pass.

Everything here is a pure function, and random numbers depend on (seed, round, partition) only: a lost result that is
computed again anywhere has the same bits.

References: C. Ma, V. Smith, M. Jaggi, M. Jordan, P. Richtarik, M. Takac, Adding vs. averaging in distributed
primal-dual optimization, 2015. B. O'Donoghue, E. Candes, Adaptive restart for accelerated gradient schemes, 2013.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from ..batch.dual import balance
from ..batch.penalty_conjugates import Net
from ..batch.sdca import OPTIONS, StrongPart, link_of, net_terms
from ..batch.sdca.run import go_over
from ..core.losses import Loss
from ..core.penalties import Penalty
from ..core.validation import Array
from ..data.rowblock import RowBlock

_NO_COUNTS = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Job:
    """The settings that all partitions and rounds share.

    `total` is the sum of all rows' weights, `partitions` is K, `local_epochs` are a partition's passes in a round.
    If the labels are numbers of classes, `positive` is the one against the others.
    """

    loss: Loss
    penalty: Penalty
    n_features: int
    fit_intercept: bool
    total: float
    partitions: int
    option: str = "I"
    sampling: str = "permutation"
    strong_part: str = "l2"
    local_epochs: int = 1
    seed: int = 0
    positive: int | None = None

    def encode(self, rows: RowBlock) -> RowBlock:
        """Return rows with the labels of the loss."""
        return rows if self.positive is None else rows._replace(y=np.where(rows.y == self.positive, 1.0, -1.0))

    def link(self, lam: float | None, share: float = 1.0) -> Any:
        """Return how weights follow from v for a share of Psi, with a strong part of strength lam if there is one."""
        if lam is not None:
            return StrongPart(self.penalty, self.n_features, self.strong_part, lam).link(share)
        terms = net_terms(self.penalty, self.n_features)
        return link_of(np.multiply(share, terms.l1), np.multiply(share, terms.l2), self.n_features)


@dataclass(frozen=True)
class Command:
    """The decisions of the client for a round.

    beta : momentum
    center, loose : the intercept that is held, and 1/mu
    lam : strength of the strongly convex part that replaces missing squares, None if none are missing
    skip : local gap below which a row has settled
    shifts : intercepts that the certificate tries
    sides : factors of positive and negative alphas in the certificate
    moves : whether alphas move, or are only measured
    """

    round: int
    beta: float
    center: float
    loose: float
    lam: float | None
    skip: float
    shifts: tuple[float, ...]
    sides: tuple[float, float]
    moves: bool = True


class DataSums(NamedTuple):
    """Sums over rows, and the largest number of features, weight and label."""

    n_rows: int
    n_features: int
    total: float
    heaviest: float
    squares: float
    y: float
    y_squared: float
    y_largest: float


class Local(NamedTuple):
    """The state of a partition: alpha and its pull [v, sum p alpha], now and a round ago."""

    alpha: Array
    alpha_before: Array
    pull: Array
    pull_before: Array


class Part(NamedTuple):
    """The contribution of a partition, or a sum of them.

    pulls : v of the positive alphas and of the negative ones, or of all in one
    sides : sums of p_i alpha_i, of positive and negative alphas
    conjugates : sum of p_i phi*(-alpha_i)
    measured : mean losses at the shifts of the last command, then conjugates at its sides, for the alphas before
    back : > 0 where the round turned back
    """

    pulls: Array
    sides: Array
    conjugates: float
    measured: Array
    back: float


class Step(NamedTuple):
    """A partition after a round."""

    local: Local
    part: Part


class Point(NamedTuple):
    """[v, sum p alpha] of all partitions, and how it changed in the last round, as sent to the partitions."""

    pull: Array
    change: Array


class View(NamedTuple):
    """What the client receives of a point, in numbers.

    `sides` balance and scale alpha for the certificate; `conjugate` is Psi* there; `penalty`, `nnz` and `part` (the
    strong part's value) are of the weights; `fit` is <v, w>.
    """

    sides: tuple[float, float]
    conjugate: float
    penalty: float
    nnz: int
    part: float
    fit: float
    sum: float
    conjugates: float
    measured: Array
    back: float


# -- on a worker ---------------------------------------------------------------------------------


def data_sums(rows: RowBlock) -> DataSums:
    """Return the sums of a partition."""
    c = rows.weights()
    largest = float(np.abs(rows.y).max()) if rows.n_rows else 0.0
    squares = float(np.sum(np.square(rows.data[rows.indptr[0] : rows.indptr[-1]], dtype=np.float64)))
    y = rows.y.astype(np.float64, copy=False)
    heaviest = float(c.max()) if rows.n_rows else 0.0
    return DataSums(
        rows.n_rows, rows.n_features, float(c.sum()), heaviest, squares, float(y.sum()), float(y @ y), largest
    )


def add_sums(several: list[DataSums]) -> DataSums:
    """Return the sums of several partitions."""
    n, d, total, heaviest, squares, y, y_squared, largest = zip(*several, strict=True)
    return DataSums(sum(n), max(d), sum(total), max(heaviest), sum(squares), sum(y), sum(y_squared), max(largest))


def bend(job: Job, rows: RowBlock, lams: tuple[float | None, ...]) -> Array:
    """Return sum_i p_i ||x_i||^2 / l2 for each strength of a strong part: the mean curvature of rows' steps."""
    from ..batch.sdca import _sweep as kernels

    out = np.empty(rows.n_rows, np.float32)
    found = []
    for lam in lams:
        kernels.curvatures(rows, job.link(lam), job.total, 0.0, out)
        found.append(float(out.sum(dtype=np.float64)))
    return np.array(found)


def begin(job: Job, rows: RowBlock, alpha: Array | None = None, before: Array | None = None) -> tuple[Step, Part]:
    """Return the start of a partition, with alphas 0 or those of a checkpoint, and its contribution a round before."""
    rows = job.encode(rows)
    alpha = np.zeros(rows.n_rows) if alpha is None else alpha
    before = alpha if before is None else before
    now, last = (_contribution(job, rows, a, np.zeros(0), 0.0) for a in (alpha, before))
    return Step(Local(alpha, before, _pull(now), _pull(last)), now), last


def advance(job: Job, number: int, rows: RowBlock, step: Step, point: Point, command: Command) -> Step:
    """Measure the alphas of a partition at the point, move them, and return the result."""
    rows, local = job.encode(rows), step.local
    measured = _measure(job, rows, local.alpha, point.pull[:-1], command)
    if not command.moves:
        return Step(local, step.part._replace(measured=measured))
    alpha = _move(job, number, rows, local, point, command)
    part = _contribution(job, rows, alpha, measured, 0.0)
    pull = _pull(part)
    ahead = local.pull + command.beta * (local.pull - local.pull_before)
    turned = (ahead - pull) * (pull - local.pull)
    back = float(np.sum(turned[:-1] * job.link(command.lam).inverse) + command.loose * turned[-1])
    return Step(Local(alpha, local.alpha, pull, local.pull), part._replace(back=back))


def itself(value: Any) -> Any:
    """Return the value: a task whose result others can share."""
    return value


def first(pair: tuple[Any, Any]) -> Any:
    """Return the first of two results."""
    return pair[0]


def second(pair: tuple[Any, Any]) -> Any:
    """Return the second of two results."""
    return pair[1]


def part_of(step: Step) -> Part:
    """Return the contribution of a partition without its state."""
    return step.part


def add(parts: list[Part]) -> Part:
    """Return the sum of contributions, in their order."""
    return Part(
        reduce(np.add, (part.pulls for part in parts)),
        reduce(np.add, (part.sides for part in parts)),
        sum(part.conjugates for part in parts),
        reduce(np.add, (part.measured for part in parts)),
        sum(part.back for part in parts),
    )


def point_of(now: Part, before: Part) -> Point:
    """Return the point that is sent to all partitions."""
    pull = _pull(now)
    return Point(pull, pull - _pull(before))


def look(job: Job, total: Part, lam: float | None) -> View:
    """Return what the client needs of the sum of all contributions: half of a certificate."""
    from ..batch.sdca import _sweep as kernels

    terms = net_terms(job.penalty, job.n_features)
    net = Net(terms, (job.n_features,))
    v, w = total.pulls.sum(axis=0), np.empty(job.n_features)
    factors = balance(*map(float, total.sides)) if job.fit_intercept else (1.0, 1.0)
    balanced = factors[0] * total.pulls[0] + factors[1] * total.pulls[1] if job.fit_intercept else v
    scale = net.limit(balanced)
    kernels.weights(job.link(lam), v, w)
    part = 0.0 if lam is None else StrongPart(job.penalty, job.n_features, job.strong_part, lam).size(w)
    return View(
        (scale * factors[0], scale * factors[1]),
        net.value(balanced, scale),
        net.primal(w),
        int(np.count_nonzero(w)),
        part,
        float(v @ w),
        float(total.sides.sum()),
        total.conjugates,
        total.measured,
        total.back,
    )


def weights(job: Job, point: Point, lam: float | None) -> Array:
    """Return w = grad Psi*(v)."""
    from ..batch.sdca import _sweep as kernels

    w = np.empty(job.n_features)
    kernels.weights(job.link(lam), np.ascontiguousarray(point.pull[:-1]), w)
    return w


def current_alphas(step: Step) -> tuple[Array, Array]:
    """Return the alphas of a partition, and those before its last round."""
    return step.local.alpha, step.local.alpha_before


def proved_alpha(step: Step, sides: tuple[float, float], before: bool) -> Array:
    """Return the alphas of a partition, now or before its last round, scaled as in the certificate."""
    from ..batch._conjugates import scale_sides

    alpha = (step.local.alpha_before if before else step.local.alpha).copy()
    scale_sides(alpha, *sides)
    return alpha


def _pull(part: Part) -> Array:
    return np.append(part.pulls.sum(axis=0), part.sides.sum())


def _contribution(job: Job, rows: RowBlock, alpha: Array, measured: Array, back: float) -> Part:
    """Compute the contribution of alphas from scratch."""
    from ..batch import _conjugates as conjugates
    from ..batch.sdca import _sweep as kernels
    from ..core.losses._kernels import as_tuple

    each = np.eye(2) if job.fit_intercept else np.ones((1, 2))
    pulls = np.zeros((len(each), job.n_features))
    for sides, v in zip(each, pulls, strict=True):
        kernels.combine(rows, alpha, sides, job.total, 0, rows.n_rows, v)
    sums = np.array(conjugates.sides(alpha, rows.c)) / job.total
    conjugate = float(conjugates.conjugate_sum(as_tuple(job.loss), alpha, rows.y, rows.c, 1.0)) / job.total
    return Part(pulls, sums, conjugate, measured, back)


def _measure(job: Job, rows: RowBlock, alpha: Array, v: Array, command: Command) -> Array:
    from ..batch.sdca import _sweep as kernels
    from ..core.losses._kernels import as_tuple

    w, out = np.empty(job.n_features), np.zeros(len(command.shifts) + 1)
    kernels.weights(job.link(command.lam), np.ascontiguousarray(v), w)
    shifts, sides = np.array(command.shifts), np.array(command.sides)
    kernels.measure(as_tuple(job.loss), rows, w, shifts, alpha, sides, job.total, 0, rows.n_rows, out)
    return out


def _move(job: Job, number: int, rows: RowBlock, local: Local, point: Point, command: Command) -> Array:
    """Return the alphas after a pass of Prox-SDCA over a partition, with its share of the penalty."""
    from ..batch.sdca import _sweep as kernels
    from ..core.losses._kernels import as_tuple

    K, beta, n = job.partitions, command.beta, rows.n_rows
    link = job.link(command.lam, 1.0 / K)
    z = (point.pull + beta * point.change) / K - beta * (local.pull - local.pull_before)
    alpha, curvature = local.alpha.copy(), np.empty(n, np.float32)
    reach = kernels.curvatures(rows, link, job.total, K * command.loose, curvature)
    bias = np.array([z[-1], command.center, K * command.loose])
    v = np.ascontiguousarray(z[:-1])
    state = kernels.State(alpha, v, curvature, bias, np.zeros(0), _NO_COUNTS, np.zeros(1, np.int64))
    option = kernels.Option(OPTIONS.index(job.option) + 1, 1.0 / job.loss.smoothness, reach)
    parts = kernels.Parts(as_tuple(job.loss), option, link)
    seed = np.random.SeedSequence((job.seed, command.round, number)).generate_state(1, np.uint64)

    def sweep(order: Array) -> tuple[float, int]:
        if job.sampling == "uniform":
            kernels.sample(order, n, seed)
        else:
            kernels.shuffle(order, seed)
        result: tuple[float, int] = kernels.sweep(parts, rows, state, order, job.total, command.skip)
        return result

    order = np.arange(n, dtype=np.int32 if n < 2**31 else np.int64)
    for _ in range(job.local_epochs):
        go_over(sweep, order, job.sampling == "permutation")
    return alpha
