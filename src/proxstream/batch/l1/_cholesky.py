"""Cholesky factors of a normal matrix H = X' D X + diag(l2) whose rare columns are eliminated sparsely.

Rare columns touch few others. They come first, each time the one that touches the fewest of those left, and are
eliminated one by one in sparse form. Sooner or later what is left has filled in; the elimination stops there, and the
rest, the Schur complement of the eliminated ones, is a dense matrix for LAPACK.

    H = [ A  B' ]    A = L L'  (sparse)    B = C L'    H_tail - C C' = dense
        [ B  H_tail ]

Elimination is left-looking: column j collects its updates from the columns k < j with L_jk != 0, which wait for it in a
linked list (George and Liu 1981, section 5.5).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...jit.compile import compiled, inlined

FILLED = 0.2  # part of the columns left that the rarest of them touches where elimination stops
SHORT = 50  # a column that touches no more is always eliminated


class Lower(NamedTuple):
    """Columns of a lower triangle: column j has the values val[ptr[j]:ptr[j+1]] in the rows row[...]."""

    ptr: Any
    row: Any
    val: Any


@compiled
def normal_matrix(columns, chosen, place, X, D, H):
    """Write the lower triangle of X' D X; its column j is chosen[j] of `columns`, X the same columns by rows.

    place[c] is where column c of X stands among the chosen.
    """
    m = chosen.shape[0]
    sums, seen, touched = np.zeros(m), np.full(m, -1, np.int32), np.empty(m, np.int32)
    at = 0
    for j in range(m):
        found = 0
        for k in range(columns.ptr[chosen[j]], columns.ptr[chosen[j] + 1]):
            i = np.int64(columns.idx[k])
            x = D[i] * columns.val[k]
            for q in range(X.indptr[i], X.indptr[i + 1]):
                c = place[X.indices[q]]
                if c < j:
                    continue
                if seen[c] != j:
                    seen[c], sums[c], touched[found] = j, 0.0, c
                    found += 1
                sums[c] += x * X.data[q]
        for f in range(found):
            H.row[at + f], H.val[at + f] = touched[f], sums[touched[f]]
        at += found
        H.ptr[j + 1] = at


@compiled
def diagonal(H, out):
    """Write the diagonal of H."""
    for j in range(H.ptr.shape[0] - 1):
        for q in range(H.ptr[j], H.ptr[j + 1]):
            if H.row[q] == j:
                out[j] = H.val[q]


@inlined
def ones(word):
    """Return how many bits of a 64-bit word are set."""
    pairs = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    fours = (pairs & np.uint64(0x3333333333333333)) + ((pairs >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bytes_ = (fours + (fours >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((bytes_ * np.uint64(0x0101010101010101)) >> np.uint64(56))


@compiled
def touching(X, m):
    """Return for each of m columns a row of bits: which columns it shares a row with, itself not."""
    bits = np.zeros((m, (m + 63) // 64), np.uint64)
    for i in range(X.indptr.shape[0] - 1):
        for a in range(X.indptr[i], X.indptr[i + 1]):
            mine, c = bits[X.indices[a]], np.uint64(X.indices[a])
            for b in range(X.indptr[i], X.indptr[i + 1]):
                other = np.uint64(X.indices[b])
                if other != c:
                    mine[other >> np.uint64(6)] |= np.uint64(1) << (other & np.uint64(63))
    return bits


@compiled
def rare_first(bits, order):
    """Write an order of elimination: the column of least degree next, until the columns left have filled in.

    Eliminating a column makes those that it touches touch one another, which is an `or` of their bits. Return how many
    were eliminated; the others follow in any order.
    """
    m, words = bits.shape
    degree, gone, near = np.zeros(m, np.int64), np.zeros(m, np.bool_), np.empty(m, np.int64)
    one, low = np.uint64(1), np.uint64(63)
    for j in range(m):
        for k in range(words):
            degree[j] += ones(bits[j, k])
    done, least = 0, 0
    while done < m:
        best, v = m, -1
        for j in range(m):
            if not gone[j] and degree[j] < best:
                best, v = degree[j], j
                if best <= least:
                    break
        least = max(best - 1, 0)
        if best > SHORT and best > FILLED * (m - done):
            break
        gone[v] = True
        order[done] = v
        done += 1
        found, mine = 0, bits[v]
        for k in range(words):
            word = mine[k]
            while word:
                lowest_bit = word & (~word + one)
                near[found] = 64 * k + ones(lowest_bit - one)
                found += 1
                word ^= lowest_bit
        for f in range(found):
            u = near[f]
            other, count = bits[u], 0
            for k in range(words):
                other[k] |= mine[k]
            other[v >> 6] &= ~(one << (np.uint64(v) & low))
            other[u >> 6] &= ~(one << (np.uint64(u) & low))
            for k in range(words):
                count += ones(other[k])
            degree[u] = count
    at = done
    for j in range(m):
        if not gone[j]:
            order[at] = j
            at += 1
    return done


@compiled
def eliminate(H, ridge, most, L, pivots, rest):
    """Factorize the first columns of H + diag(ridge), `most` of them or as many as L has room for, into L and pivots.

    Return how many were eliminated; rest[j] is where the rows beyond them begin in column j of L.
    """
    m = H.ptr.shape[0] - 1
    first_waiting, next_waiting = np.full(m, -1, np.int32), np.full(m, -1, np.int32)
    sums, seen, touched = np.zeros(m), np.full(m, -1, np.int32), np.empty(m, np.int32)
    room, at = L.row.shape[0], 0
    for j in range(most):
        found = 0
        for q in range(H.ptr[j], H.ptr[j + 1]):
            c = H.row[q]
            seen[c], sums[c], touched[found] = j, H.val[q], c
            found += 1
        original = sums[j] + ridge[j]
        sums[j] = original
        k = first_waiting[j]
        while k >= 0:
            factor = L.val[rest[k]]
            for q in range(rest[k], L.ptr[k + 1]):
                c = L.row[q]
                if seen[c] != j:
                    seen[c], sums[c], touched[found] = j, 0.0, c
                    found += 1
                sums[c] -= factor * L.val[q]
            k = next_waiting[k]
        if at + found > room:
            return j
        k = first_waiting[j]
        while k >= 0:
            following = next_waiting[k]
            rest[k] += 1
            if rest[k] < L.ptr[k + 1]:
                row = L.row[rest[k]]
                next_waiting[k], first_waiting[row] = first_waiting[row], k
            k = following
        # Columns that depend on others leave a pivot of rounding errors: they are left to themselves.
        alone = sums[j] <= 1e-14 * original
        pivots[j] = math.sqrt(original if alone else sums[j])
        rest[j] = at
        if not alone:
            for c in np.sort(touched[:found]):
                if c != j:
                    L.row[at], L.val[at] = c, sums[c] / pivots[j]
                    at += 1
        L.ptr[j + 1] = at
        if rest[j] < at:
            row = L.row[rest[j]]
            next_waiting[j], first_waiting[row] = first_waiting[row], j
    return most


@compiled
def schur(H, ridge, L, rest, first, S):
    """Add what is left of H + diag(ridge) beyond the first columns to the lower half of S."""
    for j in range(first, H.ptr.shape[0] - 1):
        S[j - first, j - first] += ridge[j]
        for q in range(H.ptr[j], H.ptr[j + 1]):
            S[H.row[q] - first, j - first] += H.val[q]
    for k in range(first):
        for a in range(rest[k], L.ptr[k + 1]):
            factor, row = L.val[a], S[L.row[a] - first]
            for b in range(rest[k], a + 1):
                row[L.row[b] - first] -= factor * L.val[b]


@compiled
def forward(L, pivots, first, b):
    """Solve L y = b in place for the first rows of several right sides, and take their part from the others."""
    for j in range(first):
        for c in range(b.shape[1]):
            b[j, c] /= pivots[j]
        for q in range(L.ptr[j], L.ptr[j + 1]):
            row, factor = L.row[q], L.val[q]
            for c in range(b.shape[1]):
                b[row, c] -= factor * b[j, c]


@compiled
def backward(L, pivots, first, b):
    """Solve L' x = y in place for the first rows of several right sides, the others being known."""
    for j in range(first - 1, -1, -1):
        for q in range(L.ptr[j], L.ptr[j + 1]):
            row, factor = L.row[q], L.val[q]
            for c in range(b.shape[1]):
                b[j, c] -= factor * b[row, c]
        for c in range(b.shape[1]):
            b[j, c] /= pivots[j]
