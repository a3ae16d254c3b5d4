"""How kernels are compiled, cached and dispatched. The only room with a compile policy."""

LOOK_FOR_BLAS = True  # whether numba may look for a BLAS as it starts; see `compile`


def describe() -> str:
    """Return one line about the compiled kernels, for `proxstream --version --verbose`."""
    return "kernels: compiled on first use"
