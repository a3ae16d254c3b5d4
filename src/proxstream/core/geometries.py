"""What replaces the squared distance: h(x), the shape that keeps a learner's next point near its first.

Every dual-averaging or mirror-descent step minimizes, for a number h >= 0 (written `h`, the inverse rate),

    <u, x> + k Psi(x) + h R(x) + l1 ||x||_1

where R is the geometry: strongly convex with modulus 1 in some norm, smallest (and 0) at the first point.
A geometry solves this in *mirror coordinates*, theta = grad R(x), and maps back:

| geometry  | R(x)                        | theta                           | x of theta         | dual norm   |
|-----------|-----------------------------|---------------------------------|--------------------|-------------|
| Euclidean | ||x||_2^2 / 2               | x                               | x                  | l2          |
| PNorm(p)  | ||x||_p^2 / (2 (p - 1))     | the p-norm link / (p - 1)       | its inverse        | l_q         |
| Entropy   | sum x ln(x / r) + r ln n    | ln x                            | exp theta          | sqrt(r) max |

Learners keep theta beside x, so that a weight of 1e-400 on the simplex is still known by its logarithm.
The Euclidean geometry also takes a diagonal or a full matrix in place of the number h (AdaGrad, AROW).

References: Xiao 2010, section 2 and 7.2; Shalev-Shwartz and Tewari 2011 (SMIDAS); McMahan 2017, section 3.6.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from . import validation as _checks
from .component import component
from .penalties import KL, L1, NoPenalty, Penalty, Simplex
from .records import NamedTuple
from .validation import Array

Shape = tuple[int, ...]


class Spectrum(NamedTuple):
    """A symmetric positive semidefinite matrix V diag(values) V', kept by its eigenvectors (columns of V)."""

    values: Array
    vectors: Array

    @classmethod
    def of(cls, matrix: Array) -> Spectrum:
        """Decompose a symmetric matrix; eigenvalues lost in rounding, below d eps of the largest, become 0.

        >>> Spectrum.of(np.array([[1.0, 1.0], [1.0, 1.0]])).values
        array([0., 2.])
        """
        values, vectors = np.linalg.eigh(matrix)
        noise = len(values) * np.finfo(np.float64).eps * max(float(values[-1]), 0.0)
        return cls(np.where(values > noise, values, 0.0), vectors)

    @classmethod
    def of_blocks(cls, matrix: Array, labels: Sequence[int]) -> Spectrum:
        """Decompose block by block a matrix that is 0 between coordinates of different labels.

        What counts as rounding then depends on each block's largest eigenvalue.

        >>> Spectrum.of_blocks(np.diag([1e-20, 1.0]), (0, 1)).values
        array([1.e-20, 1.e+00])
        """
        values, vectors = np.zeros(len(matrix)), np.zeros_like(matrix)
        for label in dict.fromkeys(labels):
            block = np.flatnonzero(np.equal(labels, label))
            square = np.ix_(block, block)
            values[block], vectors[square] = cls.of(matrix[square])
        return cls(values, vectors)

    def root(self) -> Spectrum:
        """Return the symmetric square root."""
        return self._replace(values=np.sqrt(self.values))

    def shifted(self, shift: float) -> Spectrum:
        """Return the matrix + shift * I."""
        return self._replace(values=self.values + shift)

    def scaled(self, factor: float) -> Spectrum:
        """Return factor * the matrix."""
        return self._replace(values=self.values * factor)

    def times(self, x: Array) -> Array:
        """Return the matrix times x."""
        product: Array = self.vectors @ (self.values * (self.vectors.T @ x))
        return product

    def matrix(self) -> Array:
        """Return the matrix itself."""
        return (self.vectors * self.values) @ self.vectors.T


# What may stand for h: one number for all coordinates, one per coordinate, or a matrix.
Curvature = float | Array | Spectrum


class Geometry(ABC):
    """R(x): its value, its mirror map, and the step it makes together with a penalty."""

    @abstractmethod
    def check(self, penalty: Penalty, shape: Shape) -> None:
        """Raise a TypeError naming what is accepted where no closed form joins this geometry and `penalty`."""

    @abstractmethod
    def start(self, penalty: Penalty, shape: Shape) -> Array:
        """Return theta of the first point, the smallest R over the constraint set."""

    @abstractmethod
    def value(self, x: Array) -> float:
        """Return R(x), up to the constant that makes it 0 at an unconstrained first point."""

    @abstractmethod
    def solve(self, penalty: Penalty, u: Array, h: Curvature, k: float, l1: float = 0.0) -> Array:
        """Return theta of argmin <u, x> + k Psi(x) + h R(x) + l1 ||x||_1."""

    @abstractmethod
    def primal(self, theta: Array) -> Array:
        """Return the x whose mirror coordinates are theta."""

    @abstractmethod
    def dual_norm(self, g: Array, x: Array) -> float:
        """Return ||g||_* for the norm in which R has modulus 1 (on the simplex through x, for Entropy)."""

    def bregman(self, x: Array, theta: Array) -> float:
        """Return B_R(x, y) = R(x) - R(y) - <theta, x - y>, for the y with mirror coordinates theta."""
        y = self.primal(theta)
        return self.value(x) - self.value(y) - float(np.vdot(theta, x - y))


@component
class Euclidean(Geometry):
    """R(x) = ||x||_2^2 / 2, the geometry of (*) itself: any penalty, any diagonal.

    A full or block matrix in place of h needs a penalty that no rotation changes.

    >>> from proxstream import L1
    >>> Euclidean().solve(L1(1.0), np.array([3.0, -0.5]), 2.0, 1.0)
    array([-1., 0.])
    """

    def check(self, penalty: Penalty, shape: Shape) -> None:
        """Accept every penalty that fits the shape."""
        penalty.check_shape(shape)

    def start(self, penalty: Penalty, shape: Shape) -> Array:
        """Return the point of the constraint set nearest to 0."""
        return penalty.solve(np.zeros(shape), 1.0, k=0.0)

    def value(self, x: Array) -> float:
        """Return ||x||_2^2 / 2."""
        return 0.5 * float(np.vdot(x, x))

    def solve(self, penalty: Penalty, u: Array, h: Curvature, k: float, l1: float = 0.0) -> Array:
        """Return the solution of (*); a matrix h is solved in its eigenvectors' coordinates."""
        if isinstance(h, Spectrum):
            v = h.vectors.T @ u
            # Where h is 0 the gradients seen so far have no part: what u shows there is rounding.
            return h.vectors @ penalty.solve(np.where(h.values > 0.0, v, 0.0), h.values, k, l1)
        return penalty.solve(u, h, k, l1)

    def primal(self, theta: Array) -> Array:
        """Return theta."""
        return theta

    def dual_norm(self, g: Array, x: Array) -> float:
        """Return ||g||_2."""
        return float(np.linalg.norm(g))


@component
class PNorm(Geometry):
    """R(x) = ||x||_p^2 / (2 (p - 1)) for 1 < p <= 2: sparse comparators, dense gradients.

    With q = p/(p - 1) and v = soft(u, k lam), the step is
    x_j = -((p - 1)/h) sgn(v_j) |v_j|^(q-1) / ||v||_q^(q-2).

    Parameters
    ----------
    p : float, optional
        In (1, 2]. None takes p = ln n / (ln n - 1) for n coordinates, 2 where n < e^2.

    Examples
    --------
    >>> PNorm(2.0).primal(PNorm(2.0).solve(NoPenalty(), np.array([1.0, -2.0]), 1.0, 1.0))
    array([-1., 2.])

    References: Xiao 2010, section 7.2; with MirrorDescent and L1 it is SMIDAS.
    """

    p: float | None = None

    def __post_init__(self) -> None:
        if self.p is not None:
            object.__setattr__(self, "p", _checks.number("p", self.p, low=1.0, high=2.0, strict=True))

    def _p(self, n: int) -> float:
        if self.p is not None:
            return self.p
        return math.log(n) / (math.log(n) - 1.0) if n > math.exp(2.0) else 2.0

    def check(self, penalty: Penalty, shape: Shape) -> None:
        """Accept no penalty and L1."""
        if not all(isinstance(part, (NoPenalty, L1)) for part in penalty.parts):
            raise TypeError(f"PNorm has a closed form without a penalty or with L1, got {penalty!r}")
        penalty.check_shape(shape)

    def start(self, penalty: Penalty, shape: Shape) -> Array:
        """Return 0."""
        return np.zeros(shape)

    def value(self, x: Array) -> float:
        """Return ||x||_p^2 / (2 (p - 1))."""
        p = self._p(x.size)
        return _norm(x, p) ** 2 / (2.0 * (p - 1.0))

    def solve(self, penalty: Penalty, u: Array, h: Curvature, k: float, l1: float = 0.0) -> Array:
        """Return theta = -soft(u, k lam + l1) / h, the soft threshold in mirror coordinates."""
        return penalty.solve(u, h, k, l1)

    def primal(self, theta: Array) -> Array:
        """Return (p - 1) times the inverse link of theta."""
        p = self._p(theta.size)
        q = p / (p - 1.0)
        norm = _norm(theta, q)
        if norm == 0.0:
            return np.zeros_like(theta)
        return (p - 1.0) * norm * np.sign(theta) * (np.abs(theta) / norm) ** (q - 1.0)

    def dual_norm(self, g: Array, x: Array) -> float:
        """Return ||g||_q."""
        p = self._p(g.size)
        return _norm(g, p / (p - 1.0))


@component
class Entropy(Geometry):
    """R(x) = sum_j x_j ln(x_j / r) + r ln n on the simplex of radius r: exponentiated steps.

    Without a penalty r = 1 and x_j = exp(-u_j/h) / Z; Simplex(r) gives r times that. KL(sigma, prior) gives
    ln x = (k sigma ln(prior) - u) / (k sigma + h) + constant.

    >>> from proxstream import Simplex
    >>> geometry = Entropy()
    >>> geometry.primal(geometry.solve(Simplex(2.0), np.array([0.0, np.log(3.0)]), 1.0, 1.0))
    array([1.5, 0.5])

    References: Xiao 2010, section 2.1 (exponentiated dual averaging) and 2.2 (KL); McMahan 2017, section 3.6.
    """

    def check(self, penalty: Penalty, shape: Shape) -> None:
        """Accept no penalty (the unit simplex), Simplex and KL."""
        if not isinstance(penalty, (NoPenalty, Simplex, KL)):
            raise TypeError(f"Entropy lives on a simplex: it takes no penalty, Simplex(radius) or KL, got {penalty!r}")
        penalty.check_shape(shape)

    def start(self, penalty: Penalty, shape: Shape) -> Array:
        """Return the logarithm of the uniform point."""
        return np.full(shape, math.log(_radius(penalty)) - math.log(math.prod(shape)))

    def value(self, x: Array) -> float:
        """Return sum x ln(x / r) + r ln n, +inf for a negative coordinate."""
        if (x < 0.0).any():
            return math.inf
        from scipy.special import xlogy

        r = float(np.sum(x))
        return float(np.sum(xlogy(x, x / r))) + r * math.log(x.size) if r > 0.0 else math.inf

    def solve(self, penalty: Penalty, u: Array, h: Curvature, k: float, l1: float = 0.0) -> Array:
        """Return ln x, from which the largest exponent is taken out before anything can overflow."""
        if isinstance(h, Spectrum) or np.ndim(h) > 0:
            raise TypeError("Entropy takes one number h for all coordinates")
        if l1 != 0.0:
            raise TypeError("Entropy takes no extra l1 threshold (rho): on a simplex ||x||_1 is constant")
        if isinstance(penalty, KL):
            h_kl = k * penalty.sigma
            log_prior = 0.0 if penalty.prior is None else np.log(penalty.prior)  # an equal prior is a constant
            u, h = u - h_kl * log_prior, h_kl + h
        if h == 0.0 and np.ptp(u) > 0.0:
            raise ValueError(
                f"no single minimizer: Entropy takes h > 0, or equal entries of u, got h = {h} and u = {u}"
            )
        from scipy.special import logsumexp

        exponents = -u / h if h > 0.0 else np.zeros_like(u)
        theta: Array = exponents - logsumexp(exponents) + math.log(_radius(penalty))
        return theta

    def primal(self, theta: Array) -> Array:
        """Return exp(theta)."""
        return np.exp(theta)

    def dual_norm(self, g: Array, x: Array) -> float:
        """Return sqrt(r) max |g_j|, since R has modulus 1/r in the l1 norm."""
        return math.sqrt(float(np.sum(x))) * float(np.max(np.abs(g)))

    def bregman(self, x: Array, theta: Array) -> float:
        """Return sum x ln(x / y): Kullback-Leibler, both points on one simplex."""
        from scipy.special import xlogy

        return float(np.sum(xlogy(x, x) - x * theta))


def check_geometry(value: object) -> None:
    """Check the parameter that every algorithm with a choice of geometry has."""
    if not isinstance(value, Geometry):
        raise TypeError(f"geometry must be Euclidean(), PNorm(p) or Entropy(), got {_checks.shown(value)}")


def _radius(penalty: Penalty) -> float:
    return penalty.radius if isinstance(penalty, Simplex) else 1.0


def _norm(v: Array, order: float) -> float:
    """Return the norm of v of this order, scaled first so that no power overflows."""
    largest = float(np.max(np.abs(v), initial=0.0))
    if largest == 0.0:
        return 0.0
    return largest * math.pow(float(np.sum((np.abs(v) / largest) ** order)), 1.0 / order)
