"""Decorators that mark what is compiled. Nothing here imports numba: that costs half a second, and is often not needed.

Kernels. A `compiled` function is called from Python. Code that was compiled when the package was built is used if it
fits the types of the arguments (`ahead`); otherwise numba compiles the function on its first call with these types
(`numba_backend`) and keeps the result on disk.

Dispatch. A kernel meets its components (algorithm, penalty, loss) as named tuples of numbers. A `generic` function
has one body per component type; the compiler picks the body by the type of the first argument, so a call costs
nothing, and the compiled kernel can be kept on disk, which functions passed as arguments or classes could not.

    @generic
    def spread(algorithm, state, j):
        return 0.0                              # the body for all others

    @spread.of(AROW)
    def _(algorithm, state, j):
        return state[j, 1]

Inlining. What a loop calls for every row or non-zero is made part of the loop (`generic`, `inlined`). If the choice is
left to the compiler, such a call may stay a call, and a copy of its target goes into the cache: loaded from there, the
learning loop took 14 ns per non-zero instead of 8.

Intrinsics. What Python cannot express in one instruction (`prefetch`, counting zero bits) is a plain function for
reading and an `intrinsic` for compiling: its LLVM code is in `lowering`, under the same name.

With NUMBA_DISABLE_JIT=1 the same functions run as plain Python.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from . import ahead

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


class Kernel:
    """A compiled function: called with the types that it was built for, or compiled for those of its arguments."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self.py_func = function
        self.options = options
        functools.update_wrapper(self, function)

    @functools.cached_property
    def dispatcher(self) -> Any:
        """Numba's dispatcher, which compiles."""
        from . import numba_backend

        return numba_backend.kernel_dispatcher(self.py_func, **self.options)

    @functools.cached_property
    def part(self) -> Any:
        """What other kernels call: see `numba_backend`."""
        from . import numba_backend

        return numba_backend.part_dispatcher(self.py_func, **self.options)

    @functools.cached_property
    def versions(self) -> dict[str, ahead.Version]:
        """What was compiled when the package was built, by the types of the arguments."""
        return ahead.versions(f"{self.__module__}.{self.__name__}")

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel; the interpreter's lock is released."""
        if self.versions:
            types, values = ahead.flatten(arguments)
            version = self.versions.get(types)
            if version is not None and version.is_loaded():
                return version(values, arguments)
        return self.dispatcher(*arguments)

    def __reduce__(self) -> str:
        return self.__qualname__  # type: ignore[no-any-return]


_DEFERRED: list[Callable[[Any], None]] = []  # what to do when numba_backend has been imported
_BACKEND: list[Any] = []


def _when_numba_is_imported(register: Callable[[Any], None]) -> None:
    """Call `register` with the backend, now if it has been imported, else as soon as it is."""
    if _BACKEND:
        register(_BACKEND[0])
    elif not INTERPRETED:
        _DEFERRED.append(register)


def connect(backend: Any) -> None:
    """Register everything that was declared before the backend was imported."""
    _BACKEND.append(backend)
    while _DEFERRED:
        _DEFERRED.pop()(backend)


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Make a kernel: compiled for each combination of types, GIL released, kept on disk."""
    return function if INTERPRETED else Kernel(function, **options)


def compiled_inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a kernel that becomes a part of the kernels that call it."""
    return compiled(function, forceinline=True)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let kernels call a plain function, which becomes a part of them; called from Python it is just that."""
    _when_numba_is_imported(lambda backend: backend.let_kernels_call(function))
    return function


def substitute(function: Callable[..., Any], replacement: Callable[..., Any]) -> None:
    """Let kernels that call `function` get another body in its place."""
    _when_numba_is_imported(lambda backend: backend.choose_body(function, lambda *_: replacement))


def intrinsic(stub: Callable[..., Any]) -> Callable[..., Any]:
    """Let kernels that call `stub` get the LLVM code of the same name in `lowering`."""
    _when_numba_is_imported(lambda backend: backend.lower(stub))
    return stub


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

    def choose(*arguments: Any) -> Callable[..., Any]:
        return body(getattr(arguments[0], "instance_class", type(None)))

    _when_numba_is_imported(lambda backend: backend.choose_body(call, choose, **backend.INLINED))
    call.__name__, call.__doc__ = stub.__name__, stub.__doc__
    call.of, call.bodies = of, bodies  # type: ignore[attr-defined]
    return call


@intrinsic
def prefetch(array: Any, i: int) -> None:
    """Prefetch the cache line of the flat element i of an array, or of what a pointer points to.

    It is asked for to be read: if it were to be written, threads would compete for it.
    """


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
