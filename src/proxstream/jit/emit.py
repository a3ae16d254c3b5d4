"""Machine code of one version of a kernel with an entry that takes a frame: the part of `build` that needs numba."""

from __future__ import annotations

import re
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.codegen import JITCodeLibrary
from numba.core.registry import cpu_target
from numba.np import numpy_support
from numba.np.arrayobj import populate_array

from .ahead import _class, dimensions, external
from .build import RUNTIME, is_strided

RUNTIME_FUNCTIONS = set(re.findall(r"^define .*@(\w+)\(", RUNTIME, re.MULTILINE))
BYTE, STATUS, WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)
NUMBERS = {
    "f8": types.float64,
    "f4": types.float32,
    "i8": types.int64,
    "i4": types.int32,
    "u8": types.uint64,
    "u4": types.uint32,
    "b1": types.boolean,
    "n": types.none,
}


def emit_runtime(text: str) -> bytes:
    """Return the object file of LLVM code."""
    codegen = cpu_target.target_context.codegen()
    module = llvm.parse_assembly(f'target triple = "{codegen._tm.triple}"\n{text}')
    module.verify()
    return codegen._tm.emit_object(module)  # type: ignore[no-any-return]


def emit_entry(kernel: Any, arguments: list[Any]) -> tuple[bytes, str]:
    """Compile a kernel for types and return the object file, and the text of the type that it returns."""
    signature = tuple(map(numba_type, arguments))
    kernel.part.compile(signature)
    compiled = kernel.part.overloads[signature]
    context, description = compiled.target_context, compiled.fndesc
    codegen = context.codegen()
    library = JITCodeLibrary(codegen, "entry")
    library.add_linking_library(compiled.library)
    for other in compiled.library._linking_libraries:
        library.add_linking_library(other)
    module = library.create_ir_module("entry")
    kind = ir.FunctionType(STATUS, [WORD.as_pointer()])
    entry = ir.Function(module, kind, "entry")
    builder = ir.IRBuilder(entry.append_basic_block())
    frame = Frame(context, builder, entry.args[0])
    values = [frame.read(given, known) for given, known in zip(arguments, description.argtypes, strict=True)]
    called = context.declare_function(module, description)
    status, returned = context.call_conv.call_function(
        builder, called, description.restype, description.argtypes, values
    )
    with builder.if_then(status.is_error):
        builder.ret(status.code)
    text = frame.write(description.restype, returned)
    builder.ret(ir.Constant(STATUS, 0))
    library.add_ir_module(module)
    return _optimized(library), text


def _optimized(library: Any) -> bytes:
    """Link, optimize as numba does, and return the object file; only the entry is visible from outside."""
    for other in dict.fromkeys(library._linking_libraries):
        library._final_module.link_in(other._get_module_for_linking(), preserve=True)
    for function in library._final_module.functions:
        if not function.is_declaration and function.name != "entry":
            function.linkage = "internal"
    library._optimize_final_module()
    library._final_module.verify()
    for function in library._final_module.functions:
        known = function.name in RUNTIME_FUNCTIONS or function.name.startswith("llvm.")
        if function.is_declaration and not known:
            external(function.name)  # raises if no library has it
    return library._codegen._tm.emit_object(library._final_module)  # type: ignore[no-any-return]


def numba_type(kind: Any) -> Any:
    """Return numba's type for a parsed type of `ahead.parse`."""
    if isinstance(kind, tuple):
        name, items = kind
        inner = tuple(map(numba_type, items))
        if not name:
            return types.BaseTuple.from_types(inner)
        module = name.rpartition(".")[0]
        __import__(module)
        return types.BaseTuple.from_types(inner, _class(name))
    if kind in NUMBERS:
        return NUMBERS[kind]
    dtype, _, layout = kind.partition("[")
    order = "F" if "F" in layout else "A" if "A" in layout else "C"
    item = numpy_support.from_dtype(np.dtype(dtype))
    return types.Array(item, dimensions(kind), order, readonly="r" in layout, aligned="u" not in layout)


class Frame:
    """Reads arguments from slots and writes what is returned, as code."""

    def __init__(self, context: Any, builder: Any, slots: Any) -> None:
        self.context, self.builder, self.slots, self.at = context, builder, slots, 0

    def _next(self) -> Any:
        """Return the address of the next slot."""
        address = self.builder.gep(self.slots, [ir.Constant(WORD, self.at)])
        self.at += 1
        return address

    def _words(self, n: int) -> list[Any]:
        return [self.builder.load(self._next()) for _ in range(n)]

    def read(self, given: Any, kind: Any) -> Any:
        """Return the value of an argument of a numba type."""
        if isinstance(given, tuple):
            items = [self.read(inner, kind[k]) for k, inner in enumerate(given[1])]
            return self.context.make_tuple(self.builder, kind, items)
        if given == "n":
            return self.context.get_dummy_value()
        if isinstance(kind, types.Array):
            return self._read_array(given, kind)
        stored = self.context.get_data_type(kind)
        value = self.builder.load(self.builder.bitcast(self._next(), stored.as_pointer()))
        return self.context.data_model_manager[kind].from_data(self.builder, value)

    def _read_array(self, given: str, kind: Any) -> Any:
        builder, context = self.builder, self.context
        array = context.make_array(kind)(context, builder)
        item = context.get_abi_sizeof(context.get_data_type(kind.dtype))
        size = context.get_constant(types.intp, item)
        address, *shape = self._words(1 + kind.ndim)
        if is_strided(given):
            strides = self._words(kind.ndim)
        else:
            strides, step = [], size
            for n in shape if kind.layout == "F" else reversed(shape):
                strides.append(step)
                step = builder.mul(step, n)
            if kind.layout != "F":
                strides.reverse()
        data = builder.inttoptr(address, context.get_data_type(kind.dtype).as_pointer())
        populate_array(array, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
        return array._getvalue()

    def write(self, kind: Any, value: Any) -> str:
        """Write a returned value of a numba type to the next slots; return the type as text."""
        builder, context = self.builder, self.context
        if isinstance(kind, types.NoneType):
            return "n"
        if isinstance(kind, types.BaseTuple):
            items = cgutils.unpack_tuple(builder, value)
            inner = "".join(self.write(one, item) for one, item in zip(kind, items, strict=True))
            made_by = getattr(kind, "instance_class", None)
            return (f"{made_by.__module__}.{made_by.__qualname__}" if made_by else "") + f"({inner})"
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, value=value)
            builder.store(builder.ptrtoint(array.meminfo, WORD), self._next())
            builder.store(builder.ptrtoint(array.data, WORD), self._next())
            for field in (array.shape, array.strides):
                for word in cgutils.unpack_tuple(builder, field, kind.ndim):
                    builder.store(word, self._next())
            return f"{numpy_support.as_dtype(kind.dtype).str}[{kind.ndim}]"
        stored = context.data_model_manager[kind].as_data(builder, value)
        builder.store(stored, builder.bitcast(self._next(), stored.type.as_pointer()))
        return next(name for name, known in NUMBERS.items() if known == types.unliteral(kind))
