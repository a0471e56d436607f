"""The product of compressed sparse rows with dense columns, as an operation of torch without a gradient."""

import torch
from torch import Tensor
from torch.library import custom_op

from gscl_scale.model.fused.launch import start

_ROWS, _COLUMNS = 16, 128  # that a program gathers at once


@custom_op("gscl_scale::csr_product", mutates_args=())
def csr_product(indptr: Tensor, indices: Tensor, values: Tensor, dense: Tensor, dtype: torch.dtype) -> Tensor:
    """Rows times `dense` [N, D], with sums in single precision, which the result has in another one."""
    rows, width = indptr.shape[0] - 1, dense.shape[1]
    out = torch.empty(rows, width, dtype=dtype, device=dense.device)
    arguments = (indptr, indices, values, dense.contiguous(), out, width, _ROWS, _COLUMNS)
    start("product", "product", (rows, -(-width // _COLUMNS)), *arguments)
    return out


@csr_product.register_fake
def _(indptr: Tensor, indices: Tensor, values: Tensor, dense: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.empty(indptr.shape[0] - 1, dense.shape[1], dtype=dtype, device=dense.device)
