"""Where the fused kernels run."""

import functools
import importlib.util

import torch
from torch import Tensor

_TYPES = (torch.float32, torch.bfloat16, torch.float16)


def runs_fused(rows: Tensor) -> bool:
    """Whether fused kernels compute with these rows: on a GPU, where Triton is installed, up to single precision."""
    return rows.dtype in _TYPES and has_kernels(rows.device)


def has_kernels(device: torch.device) -> bool:
    """Whether a device has the fused kernels."""
    return device.type == "cuda" and _has_triton()


@functools.cache
def _has_triton() -> bool:
    return importlib.util.find_spec("triton") is not None
