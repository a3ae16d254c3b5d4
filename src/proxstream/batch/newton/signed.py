"""Weights under L1 in the interior-point method: each is the difference of two numbers that are not negative.

    w = w+ - w-        l1 + l2 w - v = s+ >= 0        l1 - l2 w + v = s- >= 0        w+ s+ = 0,  w- s- = 0        (1)

with v = X'(p alpha), so that |v - l2 w| <= l1 is the constraint of the dual. Products are put at nu > 0 as those of the
rows are. Newton's step on (1) has, with r+ and r- for what the two sums lack,

    E = w+ / s+ + w- / s-
    A = (nu / s+ - w+ - w+ r+ / s+) - (nu / s- - w- - w- r- / s-)
    dw = A - E q,   q = l2 dw - dv        ds+ = r+ + q,   ds- = r- - q                                            (2)

so that a weight counts as one under L2 of strength l2 + 1 / E, whose right side is A / E. 1 / E tends to 0 for a weight
that is not zero, and to infinity for one that is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.validation import Array


class Four(NamedTuple):
    """Numbers >= 0 in two pairs whose products tend to 0, low with beta and up with gamma; or changes of all that.

    Rows: distances from the two bounds, and their multipliers. Weights under L1: w+, w-, s+ and s-.
    """

    beta: Array
    gamma: Array
    low: Array
    up: Array

    def moved(self, changes: Four, size: float) -> Four:
        """Return where a step of this size leads."""
        return Four(*(x + size * dx for x, dx in zip(self, changes, strict=True)))

    def longest(self, changes: Four, counted: Array) -> float:
        """Return the longest step, up to 1, that leaves all counted numbers >= 0."""
        longest = 1.0
        for x, dx in zip(self, changes, strict=True):
            falling = (dx < 0.0) & counted
            if falling.any():
                longest = min(longest, float(np.min(x[falling] / -dx[falling])))
        return longest


class Signed:
    """The weights j with l1_j > 0, and (2)."""

    def __init__(self, l1: Array, l2: Array, share: float) -> None:
        self.j = np.flatnonzero(l1)
        self.l1, self.l2 = l1[self.j], l2[self.j]
        self.share = share  # of nu: what a product of one of n rows counts
        self.all = np.ones(len(self.j), bool)

    def start(self, nu: float) -> Four:
        """Return weights 0 whose products are nu times the share."""
        size = self.share * nu / self.l1
        return Four(size, size.copy(), self.l1.copy(), self.l1.copy())

    def stiffness(self, at: Four) -> Array:
        """Return the strengths l2 + 1 / E."""
        return np.asarray(self.l2 + 1.0 / (at.beta / at.low + at.gamma / at.up))

    def towards(self, at: Four, w: Array, v: Array, lower: Array, upper: Array) -> Aim:
        """Return (2) for products `lower` and `upper`."""
        bend = self.l2 * w - v
        r_low, r_up = self.l1 + bend - at.low, self.l1 - bend - at.up
        A = (lower - at.beta * r_low) / at.low - at.beta - (upper - at.gamma * r_up) / at.up + at.gamma
        return Aim(at, r_low, r_up, lower, upper, A)

    def products(self, at: Four) -> float:
        """Return the sum of all products."""
        return float(at.low @ at.beta + at.up @ at.gamma)

    def rounded(self, at: Four, w: Array, bold: float = 1.0) -> Array:
        """Return w with 0 for weights that are smaller beside the largest than `bold` times their s is beside l1."""
        w = w.copy()
        own = w[self.j]
        s = np.where(own > 0.0, at.low, at.up) / self.l1
        own[np.abs(own) <= float(np.max(np.abs(own), initial=0.0)) * s * bold] = 0.0
        w[self.j] = own
        return w


class Aim(NamedTuple):
    """A step of (2) that is known but for dw."""

    at: Four
    r_low: Array
    r_up: Array
    lower: Array
    upper: Array
    A: Array

    @property
    def yielding(self) -> Array:
        """E of (2): how far a weight moves for a change of its slope."""
        return np.asarray(self.at.beta / self.at.low + self.at.gamma / self.at.up)

    def changes(self, dw: Array) -> Four:
        """Return the step for changes dw of the weights."""
        at, q = self.at, (self.A - dw) / self.yielding
        low, up = self.r_low + q, self.r_up - q
        beta = (self.lower - at.beta * low) / at.low - at.beta
        gamma = (self.upper - at.gamma * up) / at.up - at.gamma
        return Four(beta, gamma, low, up)
