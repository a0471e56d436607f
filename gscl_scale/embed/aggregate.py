"""What the nodes of a block gather from all rows of a file, by kernels over the mapped file or on a GPU that holds it.

Shapes: N nodes, n rows of a block, e neighbours of them, H heads.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.model import kernels
from gscl_scale.model.encoder import AnyLayer, GatLayer
from gscl_scale.model.propagation import pattern_times_dense

Gather = Callable[[int, int], Tensor]
"""The rows first..end."""

_ROWS_AT_ONCE = 65536
_SHARE = 0.7  # of a GPU's free memory that rows may fill


def gatherer(
    messages: NormalisedAdjacency, rows: npt.NDArray[np.float32], layer: AnyLayer, device: torch.device
) -> Gather:
    """The function that gathers for a layer: on the GPU where all rows fit there, else by the CPU for it."""
    if device.type == "cuda" and rows.nbytes < _SHARE * torch.cuda.mem_get_info(device)[0]:
        return OnDevice(messages, rows, layer, device)
    return ByKernels(messages, rows, layer, device)


class ByKernels:
    """Reads rows of the mapped file as they are needed."""

    def __init__(
        self, messages: NormalisedAdjacency, rows: npt.NDArray[np.float32], layer: AnyLayer, device: torch.device
    ) -> None:
        self._messages, self._rows, self._layer, self._device = messages, rows, layer, device

    def __call__(self, first: int, end: int) -> Tensor:
        """The rows first..end, on the device."""
        if isinstance(self._layer, GatLayer):
            conv = self._layer.conv
            found = kernels.attend(self._messages, self._rows, conv.heads, conv.negative_slope, first, end)
        else:
            found = kernels.gather(self._messages, self._rows, first, end)
        return torch.from_numpy(found).to(self._device)


class OnDevice:
    """Holds all rows on a device; a block brings its neighbours there."""

    def __init__(
        self, messages: NormalisedAdjacency, rows: npt.NDArray[np.float32], layer: AnyLayer, device: torch.device
    ) -> None:
        self._messages, self._layer, self._device = messages, layer, device
        self._row_scale = torch.from_numpy(messages.row_scale).to(device)
        self._column_scale = torch.from_numpy(messages.column_scale).to(device)
        self._rows = torch.empty(rows.shape, device=device)
        for low in range(0, len(rows), _ROWS_AT_ONCE):
            part = torch.from_numpy(np.array(rows[low : low + _ROWS_AT_ONCE]))
            self._rows[low : low + _ROWS_AT_ONCE] = part.to(device)

    def __call__(self, first: int, end: int) -> Tensor:
        """The rows first..end, on the device."""
        indptr = self._messages.indptr[first : end + 1]
        indices = self._messages.indices[indptr[0] : indptr[-1]].astype(np.int64)
        senders = torch.from_numpy(indices).to(self._device)
        offsets = torch.from_numpy(indptr - indptr[0]).to(self._device)
        receivers = torch.repeat_interleave(torch.arange(end - first, device=self._device), offsets.diff())
        if isinstance(self._layer, GatLayer):
            return self._attended(self._layer.conv, offsets, senders, receivers, slice(first, end))
        row_scale, own = self._row_scale[first:end], slice(first, end)
        values = row_scale[receivers] * self._column_scale[senders]
        found = pattern_times_dense(offsets, senders, values, self._rows)
        if self._messages.loops:
            found += (row_scale * self._column_scale[own]).unsqueeze(1) * self._rows[own]
        return found

    def _attended(
        self, conv: torch.nn.Module, offsets: Tensor, senders: Tensor, receivers: Tensor, own: slice
    ) -> Tensor:
        """Softmax over the neighbours and the node itself, a sparse product per head."""
        heads, each, slope = int(conv.heads), int(conv.out_channels), float(conv.negative_slope)  # type: ignore[arg-type]
        rows, as_sender, as_receiver = torch.split(self._rows, [heads * each, heads, heads], dim=1)
        leaky = torch.nn.functional.leaky_relu
        of_own = leaky(as_sender[own] + as_receiver[own], slope)  # [n, H]
        terms = leaky(as_sender[senders] + as_receiver[own][receivers], slope)  # [e, H]
        top = of_own.scatter_reduce(0, receivers.unsqueeze(1).expand_as(terms), terms, "amax")
        of_own, weights = torch.exp(of_own - top), torch.exp(terms - top[receivers])
        total = of_own.index_add(0, receivers, weights)
        found = []
        for head in range(heads):
            columns = rows[:, head * each : (head + 1) * each].contiguous()
            sums = pattern_times_dense(offsets, senders, weights[:, head].contiguous(), columns)
            sums += of_own[:, head].unsqueeze(1) * columns[own]
            found.append(sums / total[:, head].unsqueeze(1))
        return torch.cat(found, dim=1)
