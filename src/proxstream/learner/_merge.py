"""Changes of cells, found, added and applied: the loops of `proxstream.learner.merge`, which has the formulas.

A cell is a row of `cells`; class a has its z in column z_at[a] and its r in column r_at[a] (an empty r_at: none), and a
unit 1/s, of AutoFTRL, is in column `unit_at` (-1: none). A change has `columns` numbers per class, side by side: that
of z; of r^2 and its square; of r and what of z is centring. Row i of changes is of feature features[i], or where
`features` is empty of feature i. Of several models side by side, each has `together` of the classes.
"""

from __future__ import annotations

import math

import numpy as np

from ..jit.compile import compiled


@compiled
def mark(indices, marked):
    """Mark the features that rows have."""
    for i in range(indices.shape[0]):
        marked[indices[i]] = True


@compiled
def taken(cells, features):
    """Return the cells of some features."""
    some = np.empty((len(features), cells.shape[1]), cells.dtype)
    for i in range(len(features)):
        for k in range(cells.shape[1]):
            some[i, k] = cells[features[i], k]
    return some


@compiled
def put(cells, features, some):
    """Put the cells of some features back."""
    for i in range(len(features)):
        for k in range(cells.shape[1]):
            cells[features[i], k] = some[i, k]


@compiled
def find(old, new, z_at, r_at, unit_at, columns, together, weights, rates, lanes, out, units, moved):
    """Write the changes from old to new cells, the new units, and which cells moved; class a is centred at rates[a]."""
    for j in range(old.shape[0]):
        moved[j] = False
        for k in range(old.shape[1]):
            moved[j] = moved[j] or old[j, k] != new[j, k]
        if not moved[j]:
            out[j] = 0.0
            if unit_at >= 0:
                units[j] = new[j, unit_at]
            continue
        s_old, s_new = 1.0, 1.0
        if unit_at >= 0:
            s_old = 1.0 / old[j, unit_at] if old[j, unit_at] > 0.0 else 0.0
            s_new = 1.0 / new[j, unit_at] if new[j, unit_at] > 0.0 else 0.0
            units[j] = new[j, unit_at]
        for model in range(0, z_at.shape[0], together):
            still = s_old == s_new
            for a in range(model, model + together):
                still = still and old[j, z_at[a]] == new[j, z_at[a]]
                still = still and (columns == 1 or old[j, r_at[a]] == new[j, r_at[a]])
            if still:  # rounding would move it
                out[j, model * columns : (model + together) * columns] = 0.0
                continue
            for a in range(model, model + together):
                first = a * columns
                out[j, first] = (new[j, z_at[a]] * s_new - old[j, z_at[a]] * s_old) / lanes
                if columns > 1:
                    r, r_new = old[j, r_at[a]] * s_old, new[j, r_at[a]] * s_new
                    more = (r_new - r) / lanes
                    squares = more * (r_new + r) / lanes
                    out[j, first + 1], out[j, first + 2] = squares, squares * squares
                    if columns > 3:
                        out[j, first + 3], out[j, first + 4] = more, more * rates[a] * s_new * weights[j, a]


@compiled
def add(features, place, changes, units, cells, least):
    """Add changes to the cells at their features' places, or features (no places); the least unit that is one stays."""
    for i in range(changes.shape[0]):
        at = features[i] if features.shape[0] else i
        if place.shape[0]:
            at = place[at]
        for k in range(changes.shape[1]):
            cells[at, k] += changes[i, k]
        if units.shape[0] and units[i] > 0.0 and (least[at] == 0.0 or units[i] < least[at]):
            least[at] = units[i]


@compiled
def apply(cells, features, z_at, r_at, unit_at, columns, together, changes, units, grown):
    """Change cells; add to `grown` what their units grew by: exponents, logarithms of mantissas, and new ones."""
    for i in range(changes.shape[0]):
        j = features[i] if features.shape[0] else i
        s_old, unit, rescaled = 1.0, 1.0, False
        if unit_at >= 0:
            before = cells[j, unit_at]
            rescaled = units[i] > 0.0 and (before == 0.0 or units[i] < before)
            if rescaled:
                cells[j, unit_at] = units[i]
                mantissa, exponent = math.frexp(float(units[i]))
                grown[0] += exponent
                grown[1] += math.log2(mantissa)
                if before > 0.0:
                    mantissa, exponent = math.frexp(float(before))
                    grown[0] -= exponent
                    grown[1] -= math.log2(mantissa)
                else:
                    grown[2] += 1.0
            s_old, unit = 1.0 / before if before > 0.0 else 0.0, float(cells[j, unit_at])
        for model in range(0, z_at.shape[0], together):
            moved = rescaled
            for k in range(model * columns, (model + together) * columns):
                moved = moved or changes[i, k] != 0.0
            if not moved:  # rounding would move it
                continue
            for a in range(model, model + together):
                first = a * columns
                z = cells[j, z_at[a]] * s_old + np.float64(changes[i, first])
                if columns > 1:
                    r = cells[j, r_at[a]] * s_old
                    squares, fourth = np.float64(changes[i, first + 1]), np.float64(changes[i, first + 2])
                    # The square of the sum over the sum of squares: by how many learners the coordinate was met.
                    met = max(squares * squares / fourth, 1.0) if fourth > 0.0 else 1.0
                    r_new = math.sqrt(r * r + met * squares)
                    if columns > 3:
                        more = np.float64(changes[i, first + 3])
                        surplus = 1.0 - (r_new - r) / more if more > 0.0 else 0.0
                        z += surplus * np.float64(changes[i, first + 4])
                    cells[j, r_at[a]] = r_new * unit
                cells[j, z_at[a]] = z * unit
