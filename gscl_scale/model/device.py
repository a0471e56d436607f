"""Where tensors live."""

import torch

from gscl_scale.config.runtime import RuntimeConfig
from gscl_scale.errors import ConfigError


def chosen_device(config: RuntimeConfig) -> torch.device:
    """The device that `runtime.device` asks for."""
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "runtime.device: cuda is asked for and torch sees no GPU; set it to auto or cpu (on Ray also "
            "runtime.worker_gpus to 0)"
        )
    if config.device == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())  # by number: other threads of this process have another
