"""How kernels are compiled: one policy for caching, floating point and dispatch, in one place.

Dispatch. A kernel meets its components (algorithm, penalty, loss) as named tuples of numbers. A `generic` function
has one body per component type; the compiler picks the body by the type of the first argument, so a call costs
nothing, and the compiled kernel can be kept on disk, which functions passed as arguments or classes could not.

    @generic
    def spread(algorithm, state, j):
        return 0.0                              # the body for all others

    @spread.of(AROW)
    def _(algorithm, state, j):
        return state[j, 1]

With NUMBA_DISABLE_JIT=1 the same bodies run as plain Python.

Cache. Compiled code is kept in a folder named after a hash of the sources it was made from: an edit anywhere makes
a new folder, so stale code cannot run. Without a writable folder kernels are compiled again in each process. A version
of a kernel is a file named after its types: numba counts them, and two processes that compile two versions at the same
time would write both to one file, so that the next process ran one with the arguments of the other.

Per process. A type marked `per_process = True` (a user's own loss) has no name that another process could know: kernels
compiled for it are not written to the cache.

Inlining. What a loop calls for every row or non-zero is made part of the loop (`generic`, `inlined`). If the choice is
left to the compiler, such a call may stay a call, and a copy of its target goes into the cache: loaded from there, the
learning loop took 14 ns per non-zero instead of 8.

Parts. numba treats every function alike: it optimizes it with all that it calls, generates machine code and makes two
wrappers, for calls from Python and from C; and all of it is optimized again in each caller. A function that only
kernels call is a *part*: it ends as LLVM code, which is linked into its callers and becomes machine code there. This
nearly halves the time of a first run; the results are the same, bit for bit. It needs numba's internals, so it is done
only for versions that it was tested with (`SUPPORTED`); with any other a part is an ordinary function of numba's.

Floating point. Only `contract` (fused multiply-add) and `nsz` (the sign of zero does not matter) are granted:
sums keep their order, so a model does not depend on how its stream was cut, and NaN stays NaN.

Start. numba looks for a BLAS as it starts, and so imports scipy's linear algebra: a fifth of the time that a command
takes to begin. No kernel multiplies matrices, but other compiled code in a user's process may: only the command line
does without it (`jit.LOOK_FOR_BLAS`).
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

from .. import jit

INTERPRETED = bool(numba.config.DISABLE_JIT)
BLAS = "scipy.linalg.cython_blas"

if not jit.LOOK_FOR_BLAS and BLAS not in sys.modules:
    sys.modules[BLAS] = None  # type: ignore[assignment]  # its import fails
    try:
        import_module("numba.np.arraymath")
    finally:
        del sys.modules[BLAS]


# -- parts: functions that only kernels call ------------------------------------------------------

OLDEST, NEWEST = (0, 60), (0, 68)
SUPPORTED = OLDEST <= numba.version_info.short <= NEWEST

# Options of every part, for `numba.njit` and `overload`.
PART_OPTIONS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

if SUPPORTED:
    from numba import _dynfunc
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import CompilerBase, DefaultPassBuilder
    from numba.core.compiler_machinery import register_pass
    from numba.core.typed_passes import NativeLowering

    class PartLibrary(JITCodeLibrary):  # type: ignore[misc]
        """LLVM code to be linked into other libraries: neither optimized nor compiled here."""

        def finalize(self) -> None:
            """Link what this code calls into it, and leave compilation to the callers."""
            self._raise_if_finalized()
            for library in dict.fromkeys(self._linking_libraries):
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
            self._finalized = True

    @register_pass(mutates_CFG=True, analysis_only=False)
    class PartLowering(NativeLowering):  # type: ignore[misc]
        """Lower to LLVM code, into a `PartLibrary`; there is nothing to call from Python."""

        _name = "part_lowering"

        def run_pass(self, state: Any) -> bool:
            """Lower the function, then register it under a handle that callers' lowering looks it up by."""
            library = state.library = PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
            library.enable_object_caching()
            state.flags.no_compile = True
            super().run_pass(state)
            lowered = state["cr"]
            description = lowered.fndesc
            handle = _dynfunc.make_function(
                description.lookup_module(), description.qualname, "a part of kernels", 0, lowered.env, (library,)
            )
            state.targetctx.insert_user_function(handle, description, [library])
            state["cr"] = lowered._replace(cfunc=handle)
            return True

    class PartCompiler(CompilerBase):  # type: ignore[misc]
        """numba's pipeline with a different lowering."""

        def define_pipelines(self) -> list[Any]:
            """Return the pipeline with `PartLowering`."""
            pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
            pipeline.passes = [
                (PartLowering if step is NativeLowering else step, description) for step, description in pipeline.passes
            ]
            pipeline.finalize()
            return [pipeline]

    PART_OPTIONS["pipeline_class"] = PartCompiler


# -- the cache ---------------------------------------------------------------------------------------


def kernel_sources(package: Path) -> list[Path]:
    """Return the files that compiled code is made from: modules with a leading underscore, losses, and this room."""
    rooms = ("core", "data", "learner", "batch", "io")
    private = (path for room in rooms for path in (package / room).rglob("_*.py") if path.name != "__init__.py")
    return sorted({*private, *(package / "jit").glob("*.py"), *(package / "core/losses").glob("*.py")})


def _cache_folder() -> str | None:
    """Return a writable folder for this exact source, or None."""
    package = Path(__file__).parent.parent
    digest = hashlib.sha256(f"{numba.__version__} {sys.version}".encode())
    for source in kernel_sources(package):
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


def _per_process(kind: Any) -> bool:
    """Whether a type, or one inside it, is known to this process only."""
    inner = getattr(kind, "types", None)
    return getattr(getattr(kind, "instance_class", None), "per_process", False) or (
        isinstance(inner, tuple) and any(map(_per_process, inner))
    )


def _dispatcher(function: Callable[..., Any], **options: Any) -> Any:
    """Return numba's dispatcher of a function; compiled code is kept on disk if there is room."""
    if CACHE_FOLDER is None:
        return numba.njit(**OPTIONS, **options)(function)
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, CACHE_FOLDER
    try:
        made = numba.njit(cache=True, **OPTIONS, **options)(function)
    finally:
        numba.config.CACHE_DIR = before
    cache = made._cache
    save = cache.save_overload
    if function.__module__.startswith(f"{__package__.partition('.')[0]}."):
        # The folder's name is a hash of the sources: where and when they were installed does not matter.
        name = f"{function.__module__}.{cache._impl.filename_base}"
        cache._cache_path = CACHE_FOLDER
        cache._cache_file = type(cache._cache_file)(CACHE_FOLDER, name, os.path.basename(CACHE_FOLDER))
    file = cache._cache_file

    def save_if_there_is_room(signature: Any, code: Any) -> None:
        if not any(map(_per_process, code.signature.args)):
            with contextlib.suppress(OSError):  # a full disk: the compiled code runs all the same
                save(signature, code)

    def save_version(key: Any, code: Any) -> None:
        name = file._data_name(int(hashlib.sha256(repr(key).encode()).hexdigest()[:15], 16))
        file._save_data(name, code)
        file._save_index({**file._load_index(), key: name})

    cache.save_overload, file.save = save_if_there_is_room, save_version
    return made


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Compile a kernel on its first call with each combination of types: GIL released, kept on disk.

    Kernels that call it get a part (see above) in which literals have the types of other numbers: `f(x, 0)` and
    `f(x, n)` are one version, not two.
    """
    kernel = _dispatcher(function, no_cfunc_wrapper=True, **options)
    if INTERPRETED:
        return kernel  # type: ignore[no-any-return]
    part = numba.njit(**OPTIONS, **PART_OPTIONS, **options)(function)

    def get_call_template(arguments: Any, keywords: Any) -> Any:
        named = {name: types.unliteral(kind) for name, kind in dict(keywords).items()}
        return part.get_call_template(tuple(map(types.unliteral, arguments)), named)

    # What numba asks of a dispatcher when compiled code calls it.
    kernel.get_call_template = get_call_template
    kernel.get_overload, kernel.get_compile_result = part.get_overload, part.get_compile_result
    return kernel  # type: ignore[no-any-return]


def compiled_inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a kernel that becomes a part of the kernels that call it."""
    return compiled(function, forceinline=True)


INLINED = {"forceinline": True, **PART_OPTIONS}


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let kernels call a plain function, which becomes a part of them; called from Python it is just that."""
    return register_jitable(**INLINED)(function)  # type: ignore[no-any-return]


def generic(stub: Callable[..., Any]) -> Any:
    """Make a function whose body the compiler chooses by the type of its first argument; `stub` is the default."""
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

    @overload(call, jit_options=INLINED, strict=False)
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
        """Prefetch the cache line of the flat element i for reading: for writing, threads would compete for it."""

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
    """Ask for the cell of feature j: a few numbers, of which three may span two cache lines."""
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
    """Ask for the n non-zeros that are FAR after `first`: the processor's prefetching stops at the end of a page."""
    half = LINE // 8
    for q in range(first + FAR, first + FAR + n, 2 * half):
        prefetch(indices, q)
        prefetch(data, q)
        if indices.itemsize == 8:
            prefetch(indices, q + half)
        if data.itemsize == 8:
            prefetch(data, q + half)
