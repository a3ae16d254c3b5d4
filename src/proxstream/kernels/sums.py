"""Changes of cells, found, added and applied: the loops of `proxstream.engines.sums`, which tells the formulas.

A cell is a row of `cells`; class a has its z in column z_at[a] and its r in column r_at[a] (an empty r_at: none), and a
unit 1/s, of AutoFTRL, stands in column `unit_at` (-1: none). A change has `columns` numbers a class, side by side: that
of z; of r^2 and its square; of r and what of z is centring.
"""

from __future__ import annotations

import math

import numpy as np

from .jit import compiled


@compiled
def find(old, new, z_at, r_at, unit_at, weights, rate, lanes, columns, out, sizes, moved):
    """Write the changes from old to new cells, the new sizes, and which cells moved; weights are centred at `rate`."""
    for j in range(old.shape[0]):
        moved[j] = False
        for k in range(old.shape[1]):
            moved[j] = moved[j] or old[j, k] != new[j, k]
        s_old, s_new = 1.0, 1.0
        if unit_at >= 0:
            s_old = 1.0 / old[j, unit_at] if old[j, unit_at] > 0.0 else 0.0
            s_new = 1.0 / new[j, unit_at] if new[j, unit_at] > 0.0 else 0.0
            sizes[j] = s_new
        for a in range(z_at.shape[0]):
            first = a * columns
            out[j, first] = (new[j, z_at[a]] * s_new - old[j, z_at[a]] * s_old) / lanes
            if columns > 1:
                r, r_new = old[j, r_at[a]] * s_old, new[j, r_at[a]] * s_new
                more = (r_new - r) / lanes
                squares = more * (r_new + r) / lanes
                out[j, first + 1], out[j, first + 2] = squares, squares * squares
                if columns > 3:
                    out[j, first + 3], out[j, first + 4] = more, more * rate * s_new * weights[j, a]


@compiled
def place_of(features, place):
    """Mark features in a table of places."""
    for i in range(features.shape[0]):
        place[features[i]] = 1


@compiled
def add(features, place, changes, sizes, cells, largest):
    """Add changes to the cells at their features' places; the largest of sizes stays, where there are sizes."""
    for i in range(features.shape[0]):
        at = place[features[i]]
        for k in range(changes.shape[1]):
            cells[at, k] += changes[i, k]
        if sizes.shape[0]:
            largest[at] = max(largest[at], sizes[i])


@compiled
def apply(cells, z_at, r_at, unit_at, columns, changes, sizes, grown):
    """Change cells; add to `grown` what their units grew by: exponents, logarithms of mantissas, and new ones."""
    for j in range(cells.shape[0]):
        s_old, unit = 1.0, 1.0
        if unit_at >= 0:
            before = cells[j, unit_at]
            s_old = 1.0 / before if before > 0.0 else 0.0
            s_new = max(s_old, sizes[j])
            cells[j, unit_at] = 1.0 / s_new if s_new > 0.0 else 0.0
            if s_new == s_old:
                cells[j, unit_at] = before
            unit = float(cells[j, unit_at])
            if unit > 0.0 and unit != before:
                mantissa, exponent = math.frexp(unit)
                grown[0] += exponent
                grown[1] += math.log2(mantissa)
                if before > 0.0:
                    mantissa, exponent = math.frexp(float(before))
                    grown[0] -= exponent
                    grown[1] -= math.log2(mantissa)
                else:
                    grown[2] += 1.0
        for a in range(z_at.shape[0]):
            first = a * columns
            z = cells[j, z_at[a]] * s_old + np.float64(changes[j, first])
            if columns > 1:
                r = cells[j, r_at[a]] * s_old
                squares, fourth = np.float64(changes[j, first + 1]), np.float64(changes[j, first + 2])
                # The square of the sum over the sum of squares: by how many learners the coordinate was met.
                met = max(squares * squares / fourth, 1.0) if fourth > 0.0 else 1.0
                r_new = math.sqrt(r * r + met * squares)
                if columns > 3:
                    more = np.float64(changes[j, first + 3])
                    surplus = 1.0 - (r_new - r) / more if more > 0.0 else 0.0
                    z += surplus * np.float64(changes[j, first + 4])
                cells[j, r_at[a]] = r_new * unit
            cells[j, z_at[a]] = z * unit
