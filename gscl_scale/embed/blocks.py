"""The rows of one block of a step, computed from the files of the steps before it; the same bytes on every machine."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from gscl_scale.embed.aggregate import Gather, GpuGather, gatherer
from gscl_scale.embed.layer_files import Sizes, Step
from gscl_scale.embed.plan import aligned, pieces_of, plan_steps, reads_tiles, sizes_of, stays_sparse
from gscl_scale.embed.scratch import map_rows
from gscl_scale.embed.spread import MachineDisks, Place, RowSource, SpreadRows
from gscl_scale.embed.tiles import InPieces, Ranges, TiledGather
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import SparseFeatures
from gscl_scale.model.encoder import Encoder, SageLayer
from gscl_scale.model.propagation import SparsePair, csr_tensor
from gscl_scale.model.scaling import Scaling, sparse_rows

Rows = npt.NDArray[np.float32]
Places = tuple[tuple[str, tuple[Place, ...]], ...]  # of the rows of each file


@contextlib.contextmanager
def single_threaded(threads: int) -> Iterator[InPieces]:
    """Yield a function that runs another over ranges, on a pool of threads for each of which torch has one thread.

    A range is then computed alike whatever the number of threads, and no thread waits for another within it.
    """
    before = torch.get_num_threads()

    def one(function: Callable[[int, int], None], low: int, high: int) -> None:
        with torch.inference_mode():
            function(low, high)

    def run(function: Callable[[int, int], None], ranges: Ranges) -> None:
        for future in [pool.submit(one, function, *part) for part in ranges]:
            future.result()

    try:
        with ThreadPoolExecutor(threads, "embed", torch.set_num_threads, (1,)) as pool:
            yield run
    finally:
        torch.set_num_threads(before)  # for threads that start later


class Blocks:
    """What computes blocks of rows of all steps.

    folder      of the steps' files
    memory_gb, threads, rows   as of `sizes_of`
    tiles     as of `reads_tiles`
    """

    def __init__(
        self,
        encoder: Encoder,
        graph: Graph,
        scaling: Scaling,
        folder: Path,
        device: torch.device,
        memory_gb: float,
        threads: int,
        rows: int | None = None,
        tiles: Literal["auto"] | bool = False,
    ) -> None:
        self._encoder, self._graph, self._scaling = encoder.to(device).eval(), graph, scaling
        self._folder, self._device = folder, device
        self._adjacency = NormalisedAdjacency.of(graph, *encoder.adjacency)
        self.steps: list[Step] = plan_steps(encoder, graph, self._adjacency, scaling)
        tiled = reads_tiles(tiles, encoder, graph, self.steps, memory_gb)
        self.sizes: Sizes = sizes_of(graph, scaling, self.steps, memory_gb, threads, rows, tiled)
        self._widths = {step.file: step.width for step in self.steps}
        self._gather: tuple[str, Gather | None] = ("", None)
        self._spread: dict[str, SpreadRows] = {}
        self._places: Places = ()

    @property
    def num_nodes(self) -> int:
        """Rows of a file."""
        return self._graph.num_nodes

    def read_from(self, disks: MachineDisks | None, places: Places) -> None:
        """Read some files from the disks of machines on which their rows are now."""
        if disks and places != self._places:
            self._gather, self._places = ("", None), places
            self._spread = {file: SpreadRows(disks, file, self._widths[file], found) for file, found in places}

    def compute(self, step: Step, first: int, end: int, in_pieces: InPieces) -> Rows:
        """The rows first..end of a step's file."""
        gather = self._gather_of(step)
        below = self._map(step.below) if step.below else None
        out = np.empty((end - first, step.width), np.float32)
        if isinstance(gather, TiledGather):
            gather.read(first, end, list(aligned(first, end, self.sizes.piece)), in_pieces)
        pieces = pieces_of(self._entries(step, gather), self.sizes, first, end)
        in_pieces(functools.partial(self._piece, step, below, gather, out, first), pieces)
        return out

    def _gather_of(self, step: Step) -> Gather | None:
        """What gathers for a step, kept for its other blocks: on a GPU it holds all rows."""
        if self._gather[0] != step.file:
            self._gather = ("", None)  # first, so that a GPU does not hold both
            self._gather = (step.file, self._gatherer(step) if step.kind == "gather" else None)
        return self._gather[1]

    def _map(self, file: str) -> RowSource:
        if file in self._spread:
            return self._spread[file]
        return map_rows(self._folder / file, self._widths[file])

    def _entries(self, step: Step, gather: Gather | None) -> npt.NDArray[np.int64] | None:
        """The row pointers of the entries that a piece copies."""
        if isinstance(gather, GpuGather):
            return self._adjacency.indptr
        features = self._graph.features
        return features.indptr if step.below is None and isinstance(features, SparseFeatures) else None

    def _gatherer(self, step: Step) -> Gather:
        source = self._map(step.gathered) if step.gathered else self._graph.features
        assert not isinstance(source, SparseFeatures)
        return gatherer(self._adjacency, source, self._encoder.layer(step.layer), self._device, self.sizes.tile)

    def _piece(
        self, step: Step, below: RowSource | None, gather: Gather | None, out: Rows, first: int, low: int, high: int
    ) -> None:
        """Compute rows low..high of a step's file, into a block that begins with row `first`."""
        layer = self._encoder.layer(step.layer)
        if step.kind == "join":
            output, features = self._rows(below, low, high), self._rows(None, low, high)
            assert isinstance(output, Tensor)
            assert isinstance(features, Tensor)
            computed = self._encoder.join(output, features)
        elif gather is None:
            rows = self._rows(below, low, high)
            rows = layer.messages(rows) if step.kind == "multiply" else rows
            assert isinstance(rows, Tensor)
            computed = rows
        else:
            gathered = gather(low, high)
            if step.gathered == step.below:
                gathered = layer.messages(gathered)
            own = self._rows(below, low, high) if isinstance(layer, SageLayer) else None
            computed = self._encoder.activate(step.layer, layer.finish(gathered, own))
        out[low - first : high - first] = computed.cpu().numpy()

    def _rows(self, below: RowSource | None, low: int, high: int) -> Tensor | SparsePair:
        """Rows of the layer below on the device; those of the features are scaled, and sparse where they can be."""
        features, device = self._graph.features, self._device
        if below is not None:
            return torch.from_numpy(np.array(below[low:high])).to(device)
        if not isinstance(features, SparseFeatures):
            return torch.from_numpy(self._scaling.dense(features[low:high])).to(device)
        rows, shape = sparse_rows(features, low, high), (high - low, features.width)
        if stays_sparse(self._graph, self._scaling):
            matrix = csr_tensor(rows.indptr, rows.indices, self._scaling.sparse(rows), shape).to(device)
            return SparsePair(matrix, matrix)  # no gradient is asked for, so nothing reads the transpose
        dense = sp.csr_array((rows.values, rows.indices, rows.indptr), shape=shape).toarray()
        return torch.from_numpy(self._scaling.dense(dense)).to(device)
