"""How numba compiles kernels: one policy for caching, floating point and what is compiled, in one place.

Cache. Compiled code is kept in a folder named after a hash of the sources it was made from: an edit anywhere makes
a new folder, so stale code cannot run. Without a writable folder kernels are compiled again in each process. A version
of a kernel is a file named after its types: numba counts them, and two processes that compile two versions at the same
time would write both to one file, so that the next process ran one with the arguments of the other.

Per process. A type marked `per_process = True` (a user's own loss) has no name that another process could know: kernels
compiled for it are not written to the cache.

Parts. numba treats every function alike: it optimizes it with all that it calls, generates machine code and makes two
wrappers, for calls from Python and from C; and all of it is optimized again in each caller. A function that only
kernels call is a *part*: it ends as LLVM code, which is linked into its callers and becomes machine code there. This
nearly halves the time of a first run; the results are the same, bit for bit. It needs numba's internals, so it is done
only for versions that it was tested with (`SUPPORTED`); with any other a part is an ordinary function of numba's.

Less work of numba's. It analyses the lifetimes of variables after most of its 27 passes, of which only the last one
needs them and finds them itself: parts skip the others. The code is the same.

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
from typing import Any

import numba
from numba import types
from numba.core.typing.templates import infer, infer_global, make_intrinsic_template
from numba.extending import overload, register_jitable, typeof_impl

from .. import jit
from . import compile, lowering, notice, sources

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
    from numba.core import compiler_machinery
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import CompilerBase, DefaultPassBuilder
    from numba.core.compiler_machinery import PassManager, register_pass
    from numba.core.transforms import canonicalize_cfg
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

    class PartPasses(PassManager):  # type: ignore[misc]
        """Passes without an analysis of variables after each of them."""

        def _runPass(self, index: int, step: Any, state: Any) -> None:  # noqa: N802 (numba's name)
            step.analysis = self._analysis
            for run in (step.run_initialization, step.run_pass, step.run_finalizer):
                run(state)
            if compiler_machinery._pass_registry.get(type(step)).mutates_CFG:
                state.func_ir.blocks = canonicalize_cfg(state.func_ir.blocks)

    class PartCompiler(CompilerBase):  # type: ignore[misc]
        """numba's pipeline with a different lowering."""

        def define_pipelines(self) -> list[Any]:
            """Return the pipeline with `PartLowering`."""
            usual = DefaultPassBuilder.define_nopython_pipeline(self.state)
            pipeline = PartPasses("part")
            pipeline.passes = [
                (PartLowering if step is NativeLowering else step, description) for step, description in usual.passes
            ]
            pipeline.finalize()
            return [pipeline]

    PART_OPTIONS["pipeline_class"] = PartCompiler


# -- the cache ---------------------------------------------------------------------------------------


def _cache_folder() -> str | None:
    """Return a writable folder for this exact source, or None."""
    made_from = f"{numba.__version__} {sys.version} {sources.digest()}"
    base = os.environ.get("PROXSTREAM_CACHE_DIR") or os.environ.get("NUMBA_CACHE_DIR")
    if not base:
        base = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "proxstream")
    folder = os.path.join(base, hashlib.sha256(made_from.encode()).hexdigest()[:16])
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


CACHE_FOLDER = _cache_folder()


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


def kernel_dispatcher(function: Callable[..., Any], **options: Any) -> Any:
    """Return the dispatcher of a kernel, which Python calls."""
    return _dispatcher(function, no_cfunc_wrapper=True, **options)


def part_dispatcher(function: Callable[..., Any], **options: Any) -> Any:
    """Return what other kernels get when they call a kernel: a part in which literals have the types of other numbers.

    `f(x, 0)` and `f(x, n)` are one version of it, not two.
    """
    part = numba.njit(**OPTIONS, **PART_OPTIONS, **options)(function)
    template = part.get_call_template

    def get_call_template(arguments: Any, keywords: Any) -> Any:
        named = {name: types.unliteral(kind) for name, kind in dict(keywords).items()}
        return template(tuple(map(types.unliteral, arguments)), named)

    part.get_call_template = get_call_template
    return part


@typeof_impl.register(compile.Kernel)
def _type_of_kernel(kernel: compile.Kernel, _: Any) -> Any:
    """Let compiled code call a kernel: numba calls this when it finds one among a function's globals."""
    return types.Dispatcher(kernel.part)


INLINED = {"forceinline": True, **PART_OPTIONS}


def let_kernels_call(function: Callable[..., Any]) -> None:
    """Let compiled code call a plain function, which becomes a part of it."""
    register_jitable(**INLINED)(function)


def choose_body(function: Callable[..., Any], choose: Callable[..., Any], **options: Any) -> None:
    """Let compiled code that calls a function get the body that `choose` returns for the types of its arguments."""
    overload(function, jit_options=options, strict=False)(choose)


def lower(stub: Callable[..., Any]) -> None:
    """Let compiled code that calls `stub` get the LLVM code of the same name."""
    template = make_intrinsic_template(stub, getattr(lowering, stub.__name__), stub.__name__)
    infer(template)
    infer_global(stub, types.Function(template))


def returns_a_number(function: Callable[..., Any], arity: int) -> str | None:
    """Compile a function of 64-bit floats; return None, or the type that it returns in place of a number."""
    made = numba.njit(function)
    made.compile((types.float64,) * arity)
    returned = made.nopython_signatures[0].return_type
    return None if isinstance(returned, (types.Float, types.Integer, types.Boolean)) else str(returned)


compile.connect(sys.modules[__name__])
notice.install()
