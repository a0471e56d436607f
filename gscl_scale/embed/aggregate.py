"""Gathering of neighbours from all rows of a file, for a block of nodes: by CPU kernels, or on a GPU with all rows.

Shapes: N nodes, n rows of a block, e neighbours of them, H heads.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gscl_scale.embed.spread import RowSource
from gscl_scale.embed.tiles import TiledGather
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.model import kernels
from gscl_scale.model.encoder import GatLayer, GraphLayer
from gscl_scale.model.propagation import entry_rows, pattern_times_dense

if TYPE_CHECKING:
    from torch_geometric.nn import GATConv

Gather = Callable[[int, int], Tensor]
"""The rows first..end, on the device."""

_ROWS_AT_ONCE = 65536
_SHARE = 0.7  # of a GPU's free memory that rows may fill


def gatherer(
    adjacency: NormalisedAdjacency, rows: RowSource, layer: GraphLayer, device: torch.device, tile: int
) -> Gather:
    """The function that gathers for a layer: on the GPU where all rows fit there, otherwise on the CPU.

    tile   rows that are read at a time; 0: they are mapped
    """
    if device.type == "cuda" and rows.nbytes < _SHARE * torch.cuda.mem_get_info(device)[0]:
        return GpuGather(adjacency, rows, layer, device)
    if tile:
        return TiledGather(adjacency, rows, tile, device)
    assert isinstance(rows, np.ndarray)  # those of several machines are read in tiles
    return CpuGather(adjacency, rows, layer, device)


@dataclass(frozen=True)
class CpuGather:
    """Reads rows of the mapped file as they are needed."""

    adjacency: NormalisedAdjacency
    rows: npt.NDArray[np.float32]
    layer: GraphLayer
    device: torch.device

    def __call__(self, first: int, end: int) -> Tensor:  # noqa: D102  (said by the class)
        if isinstance(self.layer, GatLayer):
            conv = self.layer.conv
            gathered = kernels.attend(self.adjacency, self.rows, conv.heads, conv.negative_slope, first, end)
        else:
            gathered = kernels.gather(self.adjacency, self.rows, first, end)
        return torch.from_numpy(gathered).to(self.device)


class GpuGather:
    """Holds all rows on a device; a block brings its neighbours there."""

    def __init__(
        self, adjacency: NormalisedAdjacency, rows: RowSource, layer: GraphLayer, device: torch.device
    ) -> None:
        self._adjacency, self._layer, self._device = adjacency, layer, device
        self._row_scale = torch.from_numpy(adjacency.row_scale).to(device)
        self._column_scale = torch.from_numpy(adjacency.column_scale).to(device)
        self._rows = torch.empty(rows.shape, device=device)
        for low in range(0, len(rows), _ROWS_AT_ONCE):
            part = slice(low, low + _ROWS_AT_ONCE)
            self._rows[part] = torch.from_numpy(np.array(rows[part])).to(device)

    def __call__(self, first: int, end: int) -> Tensor:  # noqa: D102  (said by the class)
        indptr = self._adjacency.indptr[first : end + 1]
        indices = self._adjacency.indices[indptr[0] : indptr[-1]].astype(np.int64)
        senders = torch.from_numpy(indices).to(self._device)
        offsets = torch.from_numpy(indptr - indptr[0]).to(self._device)
        receivers, own = entry_rows(offsets, indices.size), slice(first, end)
        if isinstance(self._layer, GatLayer):
            return self._attend(self._layer.conv, offsets, senders, receivers, own)
        row_scale = self._row_scale[own]
        values = row_scale[receivers] * self._column_scale[senders]
        if (weights := self._adjacency.weights) is not None:
            values *= torch.from_numpy(np.array(weights[indptr[0] : indptr[-1]])).to(self._device)
        sums = pattern_times_dense(offsets, senders, values, self._rows)
        if self._adjacency.loops:
            sums += (row_scale * self._column_scale[own]).unsqueeze(1) * self._rows[own]
        return sums

    def _attend(self, conv: "GATConv", offsets: Tensor, senders: Tensor, receivers: Tensor, own: slice) -> Tensor:
        """Softmax over the neighbours and the node itself, a sparse product per head."""
        heads, each, slope = conv.heads, conv.out_channels, conv.negative_slope
        rows, as_sender, as_receiver = torch.split(self._rows, [heads * each, heads, heads], dim=1)
        leaky = torch.nn.functional.leaky_relu
        own_nH = leaky(as_sender[own] + as_receiver[own], slope)
        terms_eH = leaky(as_sender[senders] + as_receiver[own][receivers], slope)
        top_nH = own_nH.scatter_reduce(0, receivers.unsqueeze(1).expand_as(terms_eH), terms_eH, "amax")
        own_nH, weights_eH = torch.exp(own_nH - top_nH), torch.exp(terms_eH - top_nH[receivers])
        total_nH = own_nH.index_add(0, receivers, weights_eH)
        gathered = []
        for head in range(heads):
            columns = rows[:, head * each : (head + 1) * each].contiguous()
            sums = pattern_times_dense(offsets, senders, weights_eH[:, head].contiguous(), columns)
            sums += own_nH[:, head].unsqueeze(1) * columns[own]
            gathered.append(sums / total_nH[:, head].unsqueeze(1))
        return torch.cat(gathered, dim=1)
