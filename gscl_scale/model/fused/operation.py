"""How kernels become operations of torch: on a GPU, on the CPU of Triton's interpreter, and without numbers.

`torch.library.custom_op` would do it too, but takes 40 to 60 microseconds of the host for each call, where the start
of a kernel takes 20 (both on the host of an H100, torch 2.11).
"""

from collections.abc import Callable
from typing import Any

import torch

_LIBRARY = torch.library.Library("gscl_scale", "DEF")


def operation(results: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function an operation without a gradient; `results` gives empty results for the same arguments."""

    def define(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__.lstrip("_")
        _LIBRARY.define(name + torch.library.infer_schema(function, mutates_args=()))
        for device in ("CUDA", "CPU"):
            _LIBRARY.impl(name, function, device)
        _LIBRARY.impl(name, results, "Meta")
        defined: Callable[..., Any] = getattr(torch.ops.gscl_scale, name).default
        return defined

    return define
