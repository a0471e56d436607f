"""The product of compressed sparse rows with dense columns, as an operation of torch without a gradient."""

from typing import NamedTuple

import torch
from torch import Tensor

from gscl_scale.model.fused.launch import start
from gscl_scale.model.fused.operation import operation

_ROWS, _COLUMNS = 16, 128  # that a program gathers at once
_MOST_ENTRIES = 128  # of a row that one program sums; the rest of a longer one is shared out to others


class LongRows(NamedTuple):
    """The rest of rows that are too long for one program, in parts: those of a row follow each other.

    row, first [P]     of each part: its row, and its first entry
    parts_of [R + 1]   how many parts the rows before have
    """

    row: Tensor
    first: Tensor
    parts_of: Tensor

    @classmethod
    def of(cls, indptr: Tensor, most: int = _MOST_ENTRIES) -> "LongRows | None":
        """The parts of the rows of a matrix; None where no row is long."""
        number = (indptr.diff() - 1).clamp(min=0) // most
        if not int(number.sum()):
            return None
        row = torch.repeat_interleave(torch.arange(number.shape[0]), number)
        parts_of = torch.cat([number.new_zeros(1), number.cumsum(0)])
        within = torch.arange(row.shape[0]) - parts_of[row]
        first = indptr[row] + most * (within + 1)
        return cls(row.int(), first.to(indptr.dtype), parts_of.int())

    def to(self, device: torch.device) -> "LongRows":
        """The parts on a device."""
        return LongRows(*(one.to(device) for one in self))


def csr_product(
    indptr: Tensor, indices: Tensor, values: Tensor, dense: Tensor, dtype: torch.dtype,
    long: LongRows | None = None, most: int = _MOST_ENTRIES,
) -> Tensor:  # fmt: skip
    """Rows times `dense` [N, D], with sums in single precision, which the result has in another one.

    Without `long` one program sums a whole row, however long it is.
    """
    result: Tensor = _csr_product(indptr, indices, values, dense, dtype, *(long or (None, None, None)), most)
    return result


def _empty_product(
    indptr: Tensor, indices: Tensor, values: Tensor, dense: Tensor, dtype: torch.dtype, *_: object
) -> Tensor:
    return torch.empty(indptr.shape[0] - 1, dense.shape[1], dtype=dtype, device=dense.device)


@operation(_empty_product)
def _csr_product(
    indptr: Tensor, indices: Tensor, values: Tensor, dense: Tensor, dtype: torch.dtype,
    row: Tensor | None, first: Tensor | None, parts_of: Tensor | None, most: int,
) -> Tensor:  # fmt: skip
    out = _empty_product(indptr, indices, values, dense, dtype)
    width, blocks, parts = out.shape[1], -(-out.shape[1] // _COLUMNS), None
    arguments, sizes = (indptr, indices, values, dense.contiguous()), (width, most, _ROWS, _COLUMNS)
    if row is not None:
        parts = torch.empty(row.shape[0], width, device=dense.device)
        start("product", "long_rows", (row.shape[0], blocks), *arguments, row, first, parts, *sizes, num_warps=1)
    start("product", "product", (out.shape[0], blocks), *arguments, parts, parts_of, out, *sizes, num_warps=1)
    return out
