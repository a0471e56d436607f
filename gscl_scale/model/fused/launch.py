"""The one place where a kernel in Triton is started."""

import importlib
from typing import Any


def start(module: str, kernel: str, grid: tuple[int, ...], *arguments: Any, **options: Any) -> None:
    """Start so many programs of a kernel of `triton_kernels`; Triton is imported by the first one."""
    if 0 not in grid:
        kernels = importlib.import_module(f"gscl_scale.model.fused.triton_kernels.{module}")
        getattr(kernels, kernel)[grid](*arguments, **options)
