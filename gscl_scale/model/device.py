"""Where tensors live, and how a GPU computes with them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from gscl_scale.config.runtime import RuntimeConfig
from gscl_scale.config.sections import TrainConfig
from gscl_scale.errors import ConfigError


def chosen_device(config: RuntimeConfig) -> torch.device:
    """The device that `runtime.device` asks for."""
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("runtime.device: cuda is asked for and torch sees no GPU; set it to auto or cpu")
    if config.device == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())  # by number: other threads of this process have another


@contextmanager
def gpu_arithmetic(config: TrainConfig, device: torch.device) -> Iterator[None]:
    """Compute by `train.tf32` and `train.deterministic` within the block; a CPU has neither and stays as it is."""
    if device.type != "cuda":
        yield
        return
    precision, deterministic = torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled()
    torch.set_float32_matmul_precision("high" if config.tf32 else "highest")
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it before its first product
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        torch.use_deterministic_algorithms(deterministic)
