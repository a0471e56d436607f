"""Words of bits, and three machine instructions that numba has no name for."""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from gscl_scale.kernel import kernel

BITS = 64  # of a word: anchors that share a search


def _ones(typingctx: Any, word: Any) -> Any:
    """How many bits are set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return numba.int64(numba.uint64), generate


def _lowest_bit(typingctx: Any, word: Any) -> Any:
    """Position of the lowest bit that is set; 64 where none is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(numba.boolean, False))

    return numba.int64(numba.uint64), generate


def _prefetch(typingctx: Any, array: Any, row: Any, byte: Any) -> Any:
    """Ask for the cache line at a byte of a row of a matrix, ahead of its use; the row need not be there."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        matrix = context.make_array(signature.args[0])(context, builder, arguments[0])
        stride = builder.extract_value(matrix.strides, 0)
        offset = builder.add(builder.mul(arguments[1], stride), arguments[2])
        address = builder.add(builder.ptrtoint(matrix.data, ir.IntType(64)), offset)
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), *[ir.IntType(32)] * 3])
        function = builder.module.declare_intrinsic("llvm.prefetch", [ir.IntType(8).as_pointer()], kind)
        constants = [ir.Constant(ir.IntType(32), value) for value in (0, 3, 1)]  # to read, keep near, data
        builder.call(function, [builder.inttoptr(address, ir.IntType(8).as_pointer()), *constants])
        return context.get_dummy_value()

    return numba.void(array, numba.int64, numba.int64), generate


ones: Any = intrinsic(_ones)
lowest_bit: Any = intrinsic(_lowest_bit)
prefetch: Any = intrinsic(_prefetch)


@kernel
def merge(left, num_left, right, num_right, out):  # type: ignore[no-untyped-def]
    """The lowest of two ascending lists, as many as `out` holds; returns how many."""
    i = j = n = 0
    while n < out.size and (i < num_left or j < num_right):
        if j >= num_right or (i < num_left and left[i] < right[j]):
            out[n] = left[i]
            i += 1
        else:
            out[n] = right[j]
            j += 1
        n += 1
    return n


@kernel
def reserve(flat, size):  # type: ignore[no-untyped-def]
    """`flat` with room for `size` entries: itself, or a larger copy."""
    if flat.size >= size:
        return flat
    larger = np.empty(2 * size, flat.dtype)
    larger[: flat.size] = flat
    return larger
