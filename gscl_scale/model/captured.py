"""The encoder's passes over the whole graph as CUDA graphs: one start for all kernels of a pass."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from gscl_scale.errors import ConfigError
from gscl_scale.model.encoder import Encoder
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.keyed_random import DeviceKey, signed
from gscl_scale.model.take import take_distinct


class CapturedEncoder:
    """An encoder in training whose forward and backward pass over all nodes are recorded once and then replayed.

    The key of the noise lies on the device, so each replay draws what the encoder would draw with that key. A replay
    overwrites the results of the one before, gradients included (pytorch/pytorch#181723): one pass per step.
    """

    def __init__(self, encoder: Encoder, inputs: Inputs, bfloat16: bool) -> None:
        self._layers, self._key = inputs.layers, torch.zeros((), dtype=torch.int64, device=inputs.device)
        self._replay: Callable[[Tensor], Any]
        _expect_other_streams()
        whole = _Whole(encoder, replace(inputs, rows=None), bfloat16).train()
        try:
            self._replay = torch.cuda.make_graphed_callables(whole, (self._key,))
        except RuntimeError as error:
            reason = (str(error).strip().splitlines() or ["no reason given"])[0]
            raise ConfigError(
                f"train.cuda_graphs: the encoder cannot be recorded as a CUDA graph ({reason}); set it to false"
            ) from error

    def __call__(self, inputs: Inputs, key: int) -> Tensor:
        """Embeddings [nodes asked for, width], with the noise of a key."""
        assert inputs.layers is self._layers, "a graph reads the edges that it was recorded with"
        self._key.fill_(signed(key))
        hidden: Tensor = self._replay(self._key)
        return hidden if inputs.rows is None else take_distinct(hidden, inputs.rows)


def _expect_other_streams() -> None:
    """Weights are recorded on a stream of their own and trained on another, which torch warns of once per process."""
    graph = torch.autograd.graph
    if hasattr(graph, "set_warn_on_accumulate_grad_stream_mismatch"):  # since torch 2.10
        graph.set_warn_on_accumulate_grad_stream_mismatch(False)


class _Whole(nn.Module):
    """The encoder as a function of a key on the device and of its weights."""

    def __init__(self, encoder: Encoder, inputs: Inputs, bfloat16: bool) -> None:
        super().__init__()
        self.encoder, self._inputs, self._bfloat16 = encoder, inputs, bfloat16

    def forward(self, key: Tensor) -> Tensor:
        """Embeddings [N, width]; weights are cast within, for autocast's cache would be outside of the graph."""
        kind = self._inputs.device.type
        with torch.autocast(kind, torch.bfloat16, enabled=self._bfloat16, cache_enabled=False):
            hidden: Tensor = self.encoder(self._inputs, DeviceKey(key))
        return hidden
