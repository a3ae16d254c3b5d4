"""The cost model of the batch solvers: estimated seconds of the operations between which they choose.

Every solver that has two ways of doing the same thing (a Gram matrix by rows or in dense blocks, factors or conjugate
gradients, coordinate passes or Newton steps on a face) compares estimates made here, so a choice depends on the problem
alone and never on the load of the machine. `docs/l1_solver.md` describes the choices.

Each constant is the time of one elementary operation in seconds, set when each method was written and compared with
its alternative on complete problems; changing one changes which method solves a problem. Only ratios matter, and those
only by large factors. As a check the kernels were timed alone (one thread, best of five, a random sparse matrix of
20,000 rows, 400 or 2,000 columns and 400,000 entries, matrices of 500 and 1,500 columns for LAPACK, on a machine that
was doing other work too); the last column is that time divided by the number of operations:

    constant       operation                                              kernel                          measured
    ROW_PAIR       a product of two entries of a row, added to a dense H  `newton._kernels.gram`          4 to 16e-9
                                                                          `l1._kernels.add_gram`          12 to 13e-9
    SPARSE_PAIR    the same, added to a sparse H                          `l1._cholesky.normal_matrix`    3 to 4e-8
    BLOCK_ENTRY    a cell of a dense block of rows, written               `newton._kernels.scaled_rows`   0.2e-9
    BLOCK_PAIR     a multiply-add of the product of two such blocks       BLAS, 32 bits                   1.2 to 1.9e-11
    NEWTON_FACTOR  Cholesky of the Hessian of all features, m^3 / 3       LAPACK                          3 to 5e-11
    FACE_FACTOR    Cholesky of the Hessian of a face, counted as m^3      LAPACK                          1 to 1.7e-11
    FACTOR_CELL    a cell of a triangular factor, read in a solution      LAPACK                          0.8 to 1.2e-9
    PASS_ENTRY     an entry of X in a pass over columns or rows           `l1._kernels.sweep`             1.3e-9
    SWEEP_ENTRY    the same in a coordinate pass of a solver              `l1._kernels.sweep`             not timed
    ROW            a row's loss, slopes and curvature in a step           `newton._kernels.expand`        not timed
    FACE_PRODUCT   an entry of X in H_F d = X_F' D (X_F d)                `data._products.hessian_times`  1.6 to 2.7e-9

In that check ROW_PAIR was 4 to 16 times too small, SPARSE_PAIR 3 to 4 times, and BLOCK_ENTRY 5 times too large, so Gram
matrices by rows may be chosen where dense blocks are faster. The values are kept: nothing was tuned on this check.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.validation import Array

ROW_PAIR = 1.0e-9
SPARSE_PAIR = 1e-8
BLOCK_ENTRY = 1.0e-9
BLOCK_PAIR = 0.9e-11
NEWTON_FACTOR = 2e-11
FACE_FACTOR = 1.5e-11
FACTOR_CELL = 1e-9
PASS_ENTRY = 1.5e-9
SWEEP_ENTRY = 5e-9
ROW = 5e-8
FACE_PRODUCT = 5e-9

UNEVEN = 0.65  # pairs of a Gram matrix (half of all) in rows of uneven length, over those in rows of equal length


def pairs_in_rows(indptr: Array) -> float:
    """Return sum_i m_i^2, with m_i the number of entries of row i.

    >>> pairs_in_rows(np.array([0, 2, 5]))
    13.0
    """
    counts = np.diff(indptr).astype(np.float64)
    return float(counts @ counts)


def gram_by_rows(pairs: float) -> float:
    """Return the seconds of a Gram matrix, half of whose `pairs` of entries are multiplied and added to it."""
    return 0.5 * ROW_PAIR * pairs


def gram_in_blocks(n: int, m: Any) -> Any:
    """Return the seconds of a Gram matrix of m columns as products of dense blocks of n rows."""
    return n * m * (BLOCK_ENTRY + m * BLOCK_PAIR)


def gram(n: int, entries: Any, m: Any) -> Any:
    """Return the seconds of a Gram matrix of m columns with `entries` in n rows, by the cheaper way."""
    return np.minimum(UNEVEN * ROW_PAIR * entries * entries / n, gram_in_blocks(n, m))


def factorized_hessian(indptr: Array, one: float, size: int) -> tuple[bool, float]:
    """Return whether X' D X of `size` columns is cheaper in dense blocks, and the seconds to make and factorize it.

    `one` is 1.0 if each row has an entry for an intercept beside those that indptr counts.
    """
    counts = np.diff(indptr).astype(np.float64) + one
    sparse, dense = gram_by_rows(float(counts @ counts)), gram_in_blocks(len(counts), size)
    return dense < sparse, min(dense, sparse) + NEWTON_FACTOR * size**3 / 3.0


def hessian_product(entries: int) -> float:
    """Return the seconds of X' D (X d) for all rows."""
    return 2.0 * ROW_PAIR * max(entries, 1)


def data_pass(entries: float) -> float:
    """Return the seconds of one pass over these entries."""
    return PASS_ENTRY * entries
