"""What kernels of both engines share: their arguments, lists of ranks, and instructions that numba has no name for."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gscl_scale.kernels.kernel import instruction, kernel
from gscl_scale.kernels.sort import sort_part

BITS = 64  # of a word: anchors that share a search


class PriorityArrays(NamedTuple):
    """The priorities of a round: nodes by rank [N], rank of each node [N], priorities by rank [N]."""

    order: npt.NDArray[Any]
    rank: npt.NDArray[Any]
    priority: npt.NDArray[np.float64]


class SampleSettings(NamedTuple):
    """The settings of a sample; `kind` and `value` are those of `sample.parse_per_ring`."""

    hops: int
    width: int
    kind: int
    value: float
    beyond: int


class SampleColumns(NamedTuple):
    """The columns of A anchors that a search fills, whose members it returns in one array.

    ring_size [A, k]
    ends [A, k + 1]    where the lists of the rings and of beyond end in that array
    decided [A]
    near [A, M / 64]   bits of the lowest nodes
    first_near [A]     the first word of these that is kept
    """

    ring_size: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    decided: npt.NDArray[np.float64]
    near: npt.NDArray[np.uint64]
    first_near: npt.NDArray[np.int64]


@instruction
def ones(typingctx: Any, word: Any) -> Any:
    """Number of bits that are set."""
    import numba

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return numba.int64(numba.uint64), generate


@instruction
def lowest_bit(typingctx: Any, word: Any) -> Any:
    """Position of the lowest bit that is set; 64 where none is."""
    import numba

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(numba.boolean, False))

    return numba.int64(numba.uint64), generate


@instruction
def prefetch(typingctx: Any, array: Any, row: Any, byte: Any) -> Any:
    """Ask for the cache line at a byte of a row of a matrix, ahead of its use; the row need not be there."""
    import numba
    from llvmlite import ir

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


@kernel
def merge(left, num_left, right, num_right, out):
    """The lowest of two ascending lists, as many as `out` has room for; returns how many."""
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
def lowest_ranks(nodes, rank, count, ranks):
    """The `count` lowest ranks of some nodes: take those below a bound that sinks as lower ones come."""
    filled, bound = 0, rank.size
    for i in range(nodes.size):
        r = rank[nodes[i]]
        if r < bound:
            ranks[filled] = r
            filled += 1
            if filled == 2 * count:
                sort_part(ranks, np.int64(0), filled)
                filled = count
                bound = ranks[count - 1]
    sort_part(ranks, np.int64(0), filled)


@kernel
def reserve(flat, size):
    """`flat` with room for `size` entries: itself, or a larger copy."""
    if flat.size >= size:
        return flat
    larger = np.empty(2 * size, flat.dtype)
    for i in range(flat.size):  # an assignment of the whole takes numba a second more to compile
        larger[i] = flat[i]
    return larger


@kernel
def append_ring(flat, used, order, ring, least, low, num_low):
    """Append the nodes of the ranks in a `ring` that are in L_n (`low`), and at least the `least` lowest.

    Both are prefixes of the ring, so that the longer one is appended. Returns (flat, used).
    """
    stored = least
    while stored < ring.size and (num_low < low.size or ring[stored] <= low[low.size - 1]):
        stored += 1
    flat = reserve(flat, used + stored)
    for i in range(stored):
        flat[used + i] = order[ring[i]]
    return flat, used + stored


@kernel
def last_rank(low, num_low):
    """The last rank of a full list, -1 where it holds the whole ball."""
    return np.int64(low[low.size - 1]) if num_low == low.size else -1
