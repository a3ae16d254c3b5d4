"""The online family compiled: sparse, lazy, exact. The only room that imports numba."""
