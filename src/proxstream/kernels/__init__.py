"""The online family compiled: sparse, lazy, exact. The only room that imports numba."""

LOOK_FOR_BLAS = True  # whether numba may look for one as it starts; see `jit`
