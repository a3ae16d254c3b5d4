"""How kernels are compiled: one policy for caching, floating point and dispatch, in one place.

Dispatch. A kernel meets its components (algorithm, penalty, loss) as named tuples of numbers. A `generic` function
has one body a component type; the compiler picks the body by the type of the first argument, so a call costs
nothing, and the compiled kernel can be kept on disk, which functions passed as arguments or classes could not.

    @generic
    def spread(algorithm, state, j):
        return 0.0                              # the body for all others

    @spread.of(AROW)
    def _(algorithm, state, j):
        return state[j, 1]

With NUMBA_DISABLE_JIT=1 the same bodies run as plain Python.

Cache. Compiled code is kept in a folder named after a hash of the sources it was made from: an edit anywhere makes
a new folder, so stale code cannot run. Without a writable folder kernels are compiled anew in each process.

Inlining. What a loop calls for every row or non-zero is made part of the loop (`generic`, `inlined`). Left to the
compiler's own judgement such a call may stay a call, and a copy of its target goes into the cache: loaded from there,
the learning loop took 14 ns a non-zero where it takes 8 with everything inlined.

Floating point. Only `contract` (fused multiply-add) and `nsz` (the sign of zero does not matter) are granted:
sums keep their order, so a model does not depend on how its stream was cut, and NaN stays NaN.

Start. numba looks for a BLAS as it starts, and so imports scipy's linear algebra: a fifth of the time that a command
takes to begin. No kernel multiplies matrices; but in a process of the user's own other compiled code may, so that only
the command line does without (`kernels.LOOK_FOR_BLAS`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload, register_jitable

from .. import kernels

INTERPRETED = bool(numba.config.DISABLE_JIT)
BLAS = "scipy.linalg.cython_blas"

if not kernels.LOOK_FOR_BLAS and BLAS not in sys.modules:
    sys.modules[BLAS] = None  # type: ignore[assignment]  # to be imported in vain
    try:
        import_module("numba.np.arraymath")
    finally:
        del sys.modules[BLAS]


def _cache_folder() -> str | None:
    """Return a writable folder for this exact source, or None."""
    package = Path(__file__).parent.parent
    digest = hashlib.sha256(f"{numba.__version__} {sys.version}".encode())
    for room in ("kernels", "losses"):
        for source in sorted((package / room).glob("*.py")):
            digest.update(source.read_bytes())
    base = os.environ.get("PROXSTREAM_CACHE_DIR") or os.environ.get("NUMBA_CACHE_DIR")
    if not base:
        base = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "proxstream")
    folder = os.path.join(base, digest.hexdigest()[:16])
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


CACHE_FOLDER = None if INTERPRETED else _cache_folder()


OPTIONS = {"nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}


def compiled(function: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    """Compile a kernel on its first call with each combination of types: GIL released, kept on disk."""
    if CACHE_FOLDER is None:
        return numba.njit(**OPTIONS, **more)(function)
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, CACHE_FOLDER
    try:
        made = numba.njit(cache=True, **OPTIONS, **more)(function)
    finally:
        numba.config.CACHE_DIR = before
    save = made._cache.save_overload

    def save_if_there_is_room(*told: Any) -> None:
        with contextlib.suppress(OSError):  # a full disk: what has been compiled runs all the same
            save(*told)

    made._cache.save_overload = save_if_there_is_room
    return made  # type: ignore[no-any-return]


def compiled_inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a kernel that becomes a part of the kernels that call it."""
    return compiled(function, forceinline=True)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let kernels call a plain function, which becomes a part of them; called from Python it is just that."""
    return register_jitable(forceinline=True)(function)  # type: ignore[no-any-return]


def generic(stub: Callable[..., Any]) -> Any:
    """Make a function whose body is chosen by the type of its first argument, at compile time; `stub` is the rest's."""
    bodies: dict[type, Callable[..., Any]] = {}

    def body(component: type) -> Callable[..., Any]:
        return next((bodies[kind] for kind in component.__mro__ if kind in bodies), stub)

    def call(*arguments: Any) -> Any:
        return body(type(arguments[0]))(*arguments)

    def of(*components: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def register(body: Callable[..., Any]) -> Callable[..., Any]:
            for component in components:
                bodies[component] = body
            return body

        return register

    @overload(call, jit_options={"forceinline": True}, strict=False)
    def choose(*arguments: Any) -> Callable[..., Any]:
        return body(getattr(arguments[0], "instance_class", type(None)))

    call.__name__, call.__doc__ = stub.__name__, stub.__doc__
    call.of, call.bodies = of, bodies  # type: ignore[attr-defined]
    return call


if INTERPRETED:

    def prefetch(array: Any, i: int) -> None:
        """Do nothing: there is no cache to warm."""

else:

    @intrinsic
    def prefetch(typingctx, array, i):  # type: ignore[no-untyped-def]
        """Ask for the cache line of the flat element i: to be read, or threads would fight for those to be written."""

        def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            byte = ir.IntType(8).as_pointer()
            word = ir.IntType(32)
            call = builder.module.declare_intrinsic(
                "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            )
            address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
            read, keep, as_data = ir.Constant(word, 0), ir.Constant(word, 3), ir.Constant(word, 1)
            builder.call(call, [address, read, keep, as_data])
            return context.get_dummy_value()

        return types.void(array, i), codegen


LINE = 64  # bytes of a cache line
FAR = 512  # non-zeros between asking for a row's own numbers and learning them


@inlined
def ask_for_cell(state, width, j):  # type: ignore[no-untyped-def]
    """Ask for the cell of feature j: a few numbers, of which three may lie across the end of a cache line."""
    prefetch(state, width * j)
    if width > 2:
        prefetch(state, width * j + width - 1)


@inlined
def ask_for_cells(state, first, span):  # type: ignore[no-untyped-def]
    """Ask for `span` numbers from the flat element `first` on."""
    for s in range(0, span, LINE // state.itemsize):
        prefetch(state, first + s)
    prefetch(state, first + span - 1)


@inlined
def ask_for_rows(indices, data, first, n):  # type: ignore[no-untyped-def]
    """Ask for the n non-zeros that are FAR behind `first`: what the processor fetches of its own ends with a page."""
    half = LINE // 8
    for q in range(first + FAR, first + FAR + n, 2 * half):
        prefetch(indices, q)
        prefetch(data, q)
        if indices.itemsize == 8:
            prefetch(indices, q + half)
        if data.itemsize == 8:
            prefetch(data, q + half)
