"""What every penalty shares: the checked face of the subproblem, and the terms that sums fold into.

A penalty is one part or a sum of parts. Whatever can be added without coupling coordinates folds into six
`Terms`; at most one part couples coordinates, and it solves what the folded terms leave:

    an l2 term      joins the curvature:         h <- h + k l2
    an l1 term      is a threshold:              t  = k l1 (+ the extra threshold of enhanced RDA, outside k)
    Berhu terms     bend the threshold:          (kappa, delta) = (k lam, delta)
    lo, hi          clip

So `solve` is written once, here, and a sum costs no code of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import validation as _checks
from ..component import field_values
from ..records import NamedTuple
from ..validation import Array
from .coordinate import threshold
from .segments import Vector

Strength = float | Vector
Role = Literal["light", "separable", "coupled", "alone"]

SOLVABLE = (
    "solvable sums are: any of L1, L2, ElasticNet, Berhu, Box and NonNegative with one another; any of L1, "
    "L2, ElasticNet and NonNegative with one of GroupL2, GroupLinf, L2Norm, LinfNorm, L1Ball, L2Ball and "
    "Simplex; KL with none"
)


class Terms(NamedTuple):
    """The folded form of a sum, spread over the shape of the weights."""

    l1: Strength = 0.0
    l2: Strength = 0.0
    lo: Strength = -np.inf
    hi: Strength = np.inf
    bends: tuple[tuple[float, float], ...] = ()
    coupled: Coupled | None = None

    def join(self, other: Terms) -> Terms:
        """Fold two sums into one."""
        return Terms(
            self.l1 + other.l1,
            self.l2 + other.l2,
            np.maximum(self.lo, other.lo),
            np.minimum(self.hi, other.hi),
            self.bends + other.bends,
            self.coupled or other.coupled,
        )

    @property
    def only_l1_l2(self) -> bool:
        """Whether Psi(w) = sum_j l1_j |w_j| + (l2_j / 2) w_j^2: no bounds, bends or coupled weights.

        >>> from proxstream import ElasticNet, NonNegative
        >>> ElasticNet(0.1, 0.2).terms((3,)).only_l1_l2, (ElasticNet(0.1, 0.2) + NonNegative()).terms((3,)).only_l1_l2
        (True, False)
        """
        unbounded = bool(np.all(np.isneginf(self.lo)) and np.all(np.isposinf(self.hi)))
        return unbounded and not self.bends and self.coupled is None


class Penalty:
    """A convex function Psi of the weights, possibly infinite outside a convex set.

    Psi >= 0 for every penalty here. Penalties are immutable, compare by value, and add with `+` wherever
    the subproblem keeps an exact solver. Weights are a vector or a matrix (features x classes); a number
    given per coordinate has the weights' shape, or on a matrix one number per row.

    A subclass is a frozen dataclass that fills in the five methods below and names its role in sums.

    >>> import proxstream as ps
    >>> isinstance(ps.L1(0.1) + ps.NonNegative(), ps.Penalty)
    True
    """

    _role: ClassVar[Role]
    _strengths: ClassVar[tuple[str, ...]] = ()  # the parameters that multiply it; constraints have none
    _round: ClassVar[bool] = False
    _hard: ClassVar[bool] = False

    # ---- what a penalty class says about itself (and _check_fit, where arrays fit differently)

    def _validate(self) -> None:
        """Check and normalize the parameters."""

    def terms(self, shape: tuple[int, ...]) -> Terms:
        """Return the folded form of Psi for weights of this shape.

        >>> from proxstream import L1, L2
        >>> terms = (L1(0.5) + L2(2.0)).terms((3,))
        >>> terms.l1, terms.l2, terms.coupled
        (0.5, 2.0, None)
        """
        raise NotImplementedError

    def _value(self, w: Vector, slack: float) -> float:
        """Psi(w), constraints relaxed by the relative `slack`."""
        raise NotImplementedError

    def _subgradient(self, w: Vector) -> Vector:
        """One subgradient of the part of Psi that is finite everywhere; constraints have none of it."""
        return np.zeros_like(w)

    # ---- the public face

    def value(self, w: ArrayLike) -> float:
        """Psi(w): 0 inside a constraint and infinity outside it.

        A point counts as inside up to a relative 1e-9 of the radius or bound (1e-5 for 32-bit weights). A
        bound at 0 is exact.
        """
        w = self._weights("w", w)
        slack = 1e-5 if w.dtype == np.float32 else 1e-9
        return float(sum(part._value(w.astype(np.float64), slack) for part in self.parts))

    def __call__(self, w: ArrayLike) -> float:
        """Psi(w): a penalty is a function of the weights."""
        return self.value(w)

    def solve(self, u: ArrayLike, h: ArrayLike, k: float = 1.0, l1: float = 0.0) -> Array:
        """Solve the subproblem exactly: argmin_x <u, x> + k Psi(x) + (1/2) sum_j h_j x_j^2 + l1 ||x||_1.

        Where there are several minimizers (h_j = 0) it is the one nearest to 0. A constraint holds for
        every k, also 0.

        Parameters
        ----------
        u : linear term, a vector or a matrix
        h : curvature >= 0, a number or an array of u's shape
        k : how much of the penalty counts, >= 0
        l1 : an extra threshold that k does not multiply, >= 0 (enhanced RDA: Xiao 2010, eq. 30)

        Returns
        -------
        x of u's shape; 32-bit if u is, else 64-bit. ValueError where the problem has no minimizer.
        """
        u = self._weights("u", u)
        h = _checks.vector("h", h)
        if h.shape not in ((), u.shape):
            raise ValueError(f"h must be a number or have the shape {u.shape} of u, got {h.shape}")
        if (h < 0.0).any():
            i = _first(h < 0.0)
            raise ValueError(f"h must be >= 0, got {h[i]}{_at(i)}")
        k, l1 = _checks.number("k", k, low=0.0), _checks.number("l1", l1, low=0.0)
        h = np.full(u.shape, h, dtype=np.float64)
        with np.errstate(all="ignore"):  # an infinity is an answer here: no minimizer
            x = self._argmin(u.astype(np.float64), h, k, l1)
            x = (x + 0.0).astype(u.dtype)  # + 0.0: no negative zeros
        if not np.isfinite(x).all():
            i = _first(~np.isfinite(x))
            raise ValueError(
                f"no finite minimizer: h = {h[i]}{_at(i)} is too small for u = {u[i]} under "
                f"{self!r} with k = {k:g}; accepted is h > 0, or |u| within the penalty"
            )
        return x

    def project(self, w: ArrayLike) -> Array:
        """Project onto the constraints, to the nearest point in the l2 norm; w itself if there are none."""
        return self.solve(-self._weights("w", w), 1.0, k=0.0)

    def subgradient(self, w: ArrayLike) -> Array:
        """One subgradient of Psi without its constraints: 0 wherever 0 is one.

        Where several coordinates attain an l-infinity norm they share it equally. KL has no subgradient at
        the boundary of the simplex: a ValueError.
        """
        w = self._weights("w", w)
        total = sum((part._subgradient(w.astype(np.float64)) for part in self.parts), np.zeros(w.shape))
        return total.astype(w.dtype)

    def minimal_at(self, x: ArrayLike) -> bool:
        """Tell whether Psi(x) is the smallest value of Psi.

        With Psi >= 0, true of every penalty here, this is what Xiao (2010), condition (7), and McMahan
        (2017), Theorem 10, ask of the first point.
        """
        x = self._weights("x", x)
        best = self.solve(np.zeros(x.shape), 0.0)
        near = np.allclose(x, best, rtol=1e-12, atol=0.0)
        return near or self.value(x) <= self.value(best) * (1.0 + 1e-12)

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise a ValueError unless this penalty fits weights of the given shape."""
        if len(shape) not in (1, 2) or 0 in shape:
            raise ValueError(f"weights must be a vector or a matrix with entries, got shape {shape}")
        for part in self.parts:
            part._check_fit(shape)

    def scaled(self, c: float) -> Penalty:
        """Return c Psi for c > 0; constraints stay as they are.

        >>> from proxstream import L1, NonNegative
        >>> (L1(0.5) + NonNegative()).scaled(0.1)
        L1(lam=0.05) + NonNegative()
        """
        if not (self._strengths or self._hard):
            raise TypeError(f"{self!r} cannot be multiplied by a number: it names no strengths")
        return replace(self, **{name: getattr(self, name) * c for name in self._strengths})  # type: ignore[type-var]

    @property
    def parts(self) -> tuple[Penalty, ...]:
        """The penalties that a sum consists of; otherwise the penalty alone."""
        return (self,)

    @property
    def separable(self) -> bool:
        """Whether Psi is a sum over coordinates."""
        return all(part._role in ("light", "separable") for part in self.parts)

    @property
    def is_constraint(self) -> bool:
        """Whether Psi is 0 on a set and infinite outside it (no penalty at all is the widest such set)."""
        return all(part._hard for part in self.parts)

    @property
    def rotation_invariant(self) -> bool:
        """Whether Psi(w) depends on ||w||_2 only."""
        return all(part._round for part in self.parts)

    @property
    def strong_convexity(self) -> float:
        """A modulus of strong convexity of Psi for the l2 norm; 0.0 if there is none."""
        return float(np.min(self.terms(self._own_shape()).l2))

    def __add__(self, other: Any) -> Penalty:
        if not isinstance(other, Penalty):
            return NotImplemented
        from .sums import add  # sums are made of penalties: the import must wait

        return add(self, other)

    # ---- the solver

    def _argmin(self, u: Vector, h: Vector, k: float, l1: float) -> Vector:
        if l1 > 0.0 and any(part._role == "alone" for part in self.parts):
            raise TypeError(f"l1 = {l1:g} adds an L1 to {self!r}, which has no exact solver; {SOLVABLE}")
        terms = self.terms(u.shape)
        h, t = h + k * terms.l2, k * terms.l1 + l1
        if terms.coupled is not None:
            return terms.coupled._solve(u, h, k, t, nonnegative=bool(terms.lo == 0.0))
        bends = [(k * lam, delta) for lam, delta in terms.bends]
        return np.asarray(np.clip(threshold(u, h, t, bends), terms.lo, terms.hi))

    # ---- values, not identities

    def __post_init__(self) -> None:
        self._validate()
        shape = self._own_shape()
        self.check_shape(shape)
        terms = self.terms(shape)
        empty = np.asarray(np.greater(terms.lo, terms.hi))
        if empty.any():
            i = _first(empty)
            lo, hi = np.broadcast_to(terms.lo, empty.shape)[i], np.broadcast_to(terms.hi, empty.shape)[i]
            raise ValueError(f"{self!r} is empty: lo must be <= hi, got lo = {lo} and hi = {hi}{_at(i)}")

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _fields(self) -> dict[str, Any]:
        return field_values(self)

    def _own_shape(self) -> tuple[int, ...]:
        """The shape that the arrays inside speak of; (1,) if there are none."""
        values = [value for part in self.parts for value in part._fields().values()]
        return max((v.shape for v in values if isinstance(v, np.ndarray)), key=len, default=(1,))

    def _check_fit(self, shape: tuple[int, ...]) -> None:
        for name, value in self._fields().items():
            if isinstance(value, np.ndarray) and value.shape not in (shape, shape[:1]):
                rows = f" or {shape[:1]}" if len(shape) == 2 else ""
                kind = type(self).__name__
                raise ValueError(f"{kind}: {name} must have shape {shape}{rows}, got {value.shape}")

    def _weights(self, name: str, value: ArrayLike) -> Array:
        """A checked array that fits this penalty, 32-bit if it came so, else 64-bit."""
        array = _checks.vector(name, value)
        self.check_shape(array.shape)
        return array if array.dtype == np.float32 else array.astype(np.float64)

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Penalty) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        def plain(value: Any) -> Any:
            return (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value

        return (type(self).__name__, *map(plain, self._fields().values()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self._fields().values())  # rebuilt, so that arrays are read-only again

    def __repr__(self) -> str:
        def short(value: Any) -> str:
            if not isinstance(value, np.ndarray):
                return repr(value)
            return repr(value.tolist()) if value.size <= 8 else f"<array of shape {value.shape}>"

        inside = ", ".join(f"{name}={short(value)}" for name, value in self._fields().items())
        return f"{type(self).__name__}({inside})"


class Coupled(Penalty):
    """A penalty that couples coordinates through their magnitudes."""

    _role: ClassVar[Role] = "coupled"

    def terms(self, shape: tuple[int, ...]) -> Terms:
        """The penalty itself."""
        return Terms(coupled=self)

    def _solve(self, u: Vector, h: Vector, k: float, t: Strength, *, nonnegative: bool) -> Vector:
        """Reduce to magnitudes: x_j is 0 or has the sign of -u_j, so an l1 term lowers the pull |u_j|."""
        a = np.maximum((-u if nonnegative else np.abs(u)) - t, 0.0)
        return np.copysign(self._magnitudes(a, h, k), -u)

    def _magnitudes(self, a: Vector, h: Vector, k: float) -> Vector:
        """Minimize -<a, m> + k Psi(m) + (1/2) sum_j h_j m_j^2 over m >= 0, for a >= 0."""
        raise NotImplementedError


def strength(name: str, value: Any) -> Strength:
    """Check a number >= 0, or one such number per coordinate."""
    if not np.iterable(value) or isinstance(value, (str, bytes, Mapping, Set)):
        return _checks.number(name, value, low=0.0)
    array = frozen(_checks.vector(name, value))
    if not array.size:
        raise ValueError(f"{name} must be a number or one per coordinate, got none")
    if (array < 0.0).any():
        i = _first(array < 0.0)
        raise ValueError(f"{name} must be >= 0, got {array[i]}{_at(i)}")
    return array


def frozen(array: NDArray[Any], dtype: type = np.float64) -> NDArray[Any]:
    """Copy an array so that nothing can change it; + 0 makes negative zeros equal to zeros in bytes too."""
    array = array.astype(dtype) + dtype(0)
    array.flags.writeable = False
    return array


def spread(value: Any, shape: tuple[int, ...]) -> Any:
    """Lay a number per row over the columns of a matrix; anything else is as it is."""
    return value[:, None] if np.ndim(value) == 1 and len(shape) == 2 else value


def _first(where: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(where)[0])


def _at(index: tuple[int, ...]) -> str:
    """The place in words, empty for a single number."""
    return f" at index {index[0] if len(index) == 1 else index}" if index else ""
