"""How kernels are compiled, cached and dispatched. The only room with a compile policy."""

SHOW_COMPILING = True  # whether a terminal gets a line while kernels are compiled; see `notice`
LOOK_FOR_BLAS = True  # whether numba may look for a BLAS as it starts; see `numba_backend`


def describe() -> str:
    """Return one line about the kernels: whether they were compiled ahead, or why not."""
    from .ahead import describe

    return describe()
