"""The LLVM code of intrinsics, one function per name: numba asks it for the types and for the code.

The plain Python functions of the same names, in the modules that declare them with `compile.intrinsic`, have the
documentation; tests compare both.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.np.arrayobj import populate_array

BYTE, HALF = ir.IntType(8), ir.IntType(32)
WIDTH = 64  # bytes that are compared at once


def prefetch(typingctx, array, i):
    """Lower `compile.prefetch`."""

    def codegen(context, builder, signature, arguments):
        data = arguments[0]
        if isinstance(array, types.Array):
            data = context.make_array(array)(context, builder, data).data
        pointer = BYTE.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, HALF, HALF, HALF])
        call = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), pointer)
        read, keep, as_data = ir.Constant(HALF, 0), ir.Constant(HALF, 3), ir.Constant(HALF, 1)
        builder.call(call, [address, read, keep, as_data])
        return context.get_dummy_value()

    return types.void(array, i), codegen


def pointer(typingctx, array):
    """Lower `byteops.pointer`."""

    def codegen(context, builder, signature, arguments):
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), codegen


def trailing_zeros(typingctx, x):
    """Lower `byteops.trailing_zeros`."""

    def codegen(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), codegen


def leading_zeros(typingctx, x):
    """Lower `byteops.leading_zeros`."""

    def codegen(context, builder, signature, arguments):
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), codegen


def ones(typingctx, word):
    """Lower `byteops.ones`."""

    def codegen(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), codegen


def _text(builder, data, place):
    """Return the bytes at a place as one vector."""
    vector = ir.VectorType(BYTE, WIDTH)
    return builder.load(builder.bitcast(builder.gep(data, [place]), vector.as_pointer()), align=1)


def _everywhere(builder, value):
    """Return a vector with this byte in every place."""
    vector, places = ir.VectorType(BYTE, WIDTH), ir.Constant(ir.VectorType(HALF, WIDTH), [0] * WIDTH)
    empty = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(empty, builder.trunc(value, BYTE), ir.Constant(HALF, 0))
    return builder.shuffle_vector(first, first, places)


def occurrences(typingctx, buf, at, a, b):
    """Lower `byteops.occurrences`."""

    def codegen(context, builder, signature, arguments):
        data, place, *wanted = arguments
        text = _text(builder, data, place)
        one, other = (builder.icmp_unsigned("==", text, _everywhere(builder, value)) for value in wanted)
        return builder.bitcast(builder.or_(one, other), ir.IntType(WIDTH))

    return types.uint64(buf, types.int64, types.int64, types.int64), codegen


def below(typingctx, buf, at, limit):
    """Lower `byteops.below`."""

    def codegen(context, builder, signature, arguments):
        data, place, limit = arguments
        found = builder.icmp_unsigned("<", _text(builder, data, place), _everywhere(builder, limit))
        return builder.bitcast(found, ir.IntType(WIDTH))

    return types.uint64(buf, types.int64, types.int64), codegen


def magnitude(typingctx, value):
    """Lower `byteops.magnitude`."""

    def codegen(context, builder, signature, arguments):
        width = signature.args[0].bitwidth
        word = builder.bitcast(arguments[0], ir.IntType(width))
        return builder.and_(word, ir.Constant(ir.IntType(width), (1 << width - 1) - 1))

    return types.Integer.from_bitwidth(value.bitwidth, signed=True)(value), codegen


def python_float(typingctx, token):
    """Lower `byteops.python_float`: the C function behind Python's `float`, under the interpreter's lock."""

    def codegen(context, builder, signature, arguments):
        def call(name, result, kinds, values):
            function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, kinds), name)
            return builder.call(function, values)

        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        text = BYTE.as_pointer()
        lock = call("PyGILState_Ensure", HALF, [], [])
        kinds, values = [text, text.as_pointer(), text], [data, text.as_pointer()(None), text(None)]
        value = call("PyOS_string_to_double", ir.DoubleType(), kinds, values)
        call("PyGILState_Release", ir.VoidType(), [HALF], [lock])
        return value

    return types.float64(token), codegen


# A square of numbers is transposed in three steps, which exchange single numbers, pairs and fours of two vectors.
SQUARE = 8
EXCHANGES = (
    (1, (0, 8, 2, 10, 4, 12, 6, 14), (1, 9, 3, 11, 5, 13, 7, 15)),
    (2, (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15)),
    (4, (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15)),
)


def _transposed(builder, vectors):
    """Return the columns of a square of numbers."""
    for distance, *masks in EXCHANGES:
        low, high = (ir.Constant(ir.VectorType(HALF, SQUARE), mask) for mask in masks)
        for a in range(SQUARE):
            if not a & distance:
                one, other = vectors[a], vectors[a + distance]
                vectors[a] = builder.shuffle_vector(one, other, low)
                vectors[a + distance] = builder.shuffle_vector(one, other, high)
    return vectors


def _square(context, builder, kind, data, places):
    """Return the addresses of vectors of numbers at these places."""
    vector = ir.VectorType(context.get_value_type(kind.dtype), SQUARE)
    return [builder.bitcast(builder.gep(data, [place]), vector.as_pointer()) for place in places]


def _places(builder, places, q, column):
    """Return where the cells of eight non-zeros have a column."""
    for a in range(SQUARE):
        at = builder.add(q, ir.Constant(q.type, a))
        yield builder.add(builder.load(builder.gep(places, [at])), column)


def _lines(builder, start, across):
    """Return where eight lines start."""
    for a in range(SQUARE):
        yield builder.add(start, builder.mul(across, ir.Constant(across.type, a)))


def gather_square(typingctx, state, places, q, column, lines, start, across):
    """Lower `byteops.gather_square`."""

    def codegen(context, builder, signature, arguments):
        away, at, q, column, near, start, across = arguments
        kind, size = signature.args[0], context.get_abi_sizeof(context.get_value_type(signature.args[0].dtype))
        sources = _square(context, builder, kind, away, _places(builder, at, q, column))
        vectors = _transposed(builder, [builder.load(source, align=size) for source in sources])
        targets = _square(context, builder, kind, near, _lines(builder, start, across))
        for vector, target in zip(vectors, targets, strict=True):
            builder.store(vector, target, align=size)
        return context.get_dummy_value()

    number = types.int64
    return types.void(state, places, number, number, lines, number, number), codegen


def scatter_square(typingctx, lines, start, across, state, places, q, column):
    """Lower `byteops.scatter_square`."""

    def codegen(context, builder, signature, arguments):
        near, start, across, away, at, q, column = arguments
        kind, size = signature.args[0], context.get_abi_sizeof(context.get_value_type(signature.args[0].dtype))
        sources = _square(context, builder, kind, near, _lines(builder, start, across))
        vectors = _transposed(builder, [builder.load(source, align=size) for source in sources])
        targets = _square(context, builder, kind, away, _places(builder, at, q, column))
        for vector, target in zip(vectors, targets, strict=True):
            builder.store(vector, target, align=size)
        return context.get_dummy_value()

    number = types.int64
    return types.void(lines, number, number, state, places, number, number), codegen


def every_nth(typingctx, lines, k, n):
    """Lower `byteops.every_nth`: columns in Fortran's order, so long that each next one starts n lines further on."""
    columns = types.Array(lines.dtype, 2, "F")

    def codegen(context, builder, signature, arguments):
        whole, k, n = arguments
        whole = context.make_array(signature.args[0])(context, builder, whole)
        count, across = cgutils.unpack_tuple(builder, whole.shape)
        size = context.get_constant(types.intp, context.get_abi_sizeof(whole.data.type.pointee))
        length = builder.mul(n, across)
        array = context.make_array(columns)(context, builder)
        populate_array(
            array,
            data=builder.gep(whole.data, [builder.mul(k, across)]),
            shape=(length, builder.sdiv(count, n)),
            strides=(size, builder.mul(size, length)),
            itemsize=size,
            meminfo=None,
        )
        return array._getvalue()

    return columns(lines, types.int64, types.int64), codegen


def dot_in_strands(typingctx, w, v, n):
    """Lower `byteops.dot_in_strands`."""

    def codegen(context, builder, signature, arguments):
        *sources, n = arguments
        size = context.get_abi_sizeof(context.get_value_type(signature.args[0].dtype))
        wide = ir.VectorType(ir.DoubleType(), SQUARE)
        strands = cgutils.alloca_once_value(builder, ir.Constant(wide, [0.0] * SQUARE))
        builder.store(ir.Constant(wide, [0.0] * SQUARE), strands)
        step = ir.Constant(n.type, SQUARE)
        with cgutils.for_range_slice(builder, ir.Constant(n.type, 0), n, step, n.type) as (q, _):
            places = (_square(context, builder, signature.args[0], source, [q])[0] for source in sources)
            product = builder.fmul(*(builder.load(place, align=size) for place in places))
            product = product if size == 8 else builder.fpext(product, wide)
            builder.store(builder.fadd(builder.load(strands), product), strands)
        found = builder.load(strands)
        total, *others = (builder.extract_element(found, ir.Constant(HALF, a)) for a in range(SQUARE))
        for other in others:
            total = builder.fadd(total, other)
        return total

    return types.float64(w, v, types.int64), codegen


def power_of_half(typingctx, t):
    """Lower `core.losses._lanes.power_of_half`."""

    def codegen(context, builder, signature, arguments):
        whole = ir.IntType(64)
        k = builder.shl(builder.bitcast(arguments[0], whole), ir.Constant(whole, 52))
        return builder.bitcast(builder.sub(ir.Constant(whole, 1023 << 52), k), ir.DoubleType())

    return types.float64(types.float64), codegen
