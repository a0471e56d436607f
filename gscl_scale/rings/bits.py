"""Words of bits, and three machine instructions that numba has no name for."""

from typing import Any

import numba
from llvmlite import ir
from numba.extending import intrinsic

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
