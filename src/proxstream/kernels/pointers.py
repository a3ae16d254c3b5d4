"""Arrays as bare pointers, for loops over bytes that call functions.

An array that is handed from function to function is counted in and out at each call, and an index into it may be
negative, counted from its end; both cost more than reading a byte. A pointer has neither, and no bounds: who takes one
sees to it that the array lives on and that no index leaves it. With NUMBA_DISABLE_JIT=1 a pointer is the array itself,
and leaving it is an IndexError: so the tests look for such steps.
"""

from __future__ import annotations

from numba import types
from numba.extending import intrinsic

from .jit import INTERPRETED

if INTERPRETED:

    def pointer(array):
        """Return the array itself."""
        return array

else:

    @intrinsic
    def pointer(typingctx, array):
        """Return the address of an array's first element, to be indexed as the array is."""

        def codegen(context, builder, signature, arguments):
            return context.make_array(signature.args[0])(context, builder, arguments[0]).data

        return types.CPointer(array.dtype)(array), codegen
