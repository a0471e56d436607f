"""The encoder's output for all nodes, layer by layer, in blocks of rows: exact, larger than memory, restartable."""

import contextlib
import functools
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from gscl_scale import machine
from gscl_scale.config.runtime import RuntimeConfig
from gscl_scale.embed.aggregate import Gather, GpuGather, gatherer
from gscl_scale.embed.plan import Step, aligned, pieces_of, plan_steps, sizes_of, stays_sparse
from gscl_scale.embed.scratch import Scratch
from gscl_scale.errors import RunError
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import SparseFeatures
from gscl_scale.io.checksum import fingerprint_of
from gscl_scale.model.device import chosen_device
from gscl_scale.model.encoder import Encoder, SageLayer
from gscl_scale.model.propagation import SparsePair, csr_tensor
from gscl_scale.model.scaling import Scaling, sparse_rows
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.threads import one_ahead
from gscl_scale.text import format_bytes

Rows = npt.NDArray[np.float32]
Ranges = Iterable[tuple[int, int]]
Advance = Callable[..., None]
InPieces = Callable[[Callable[[int, int], None], Ranges], None]


@dataclass(frozen=True)
class EncodingSettings:
    """Where the encoding is done, and with what.

    folder      scratch: removed at the end, continued after a kill
    made_from   fingerprint of the weights; scratch of others is removed
    memory_gb   memory to allocate at most, beside the program itself and the files that it maps
    label       the stage that encodes, in log and progress
    rows        rows of a block; None: as many as the memory allows
    """

    folder: Path
    made_from: str
    device: torch.device
    memory_gb: float = 4.0
    label: str = "embed"
    rows: int | None = None

    @classmethod
    def of(cls, runtime: RuntimeConfig, folder: Path, made_from: str, label: str) -> "EncodingSettings":
        """With device and memory of the config."""
        return cls(folder, made_from, chosen_device(runtime), runtime.embed_memory_gb, label)


@contextlib.contextmanager
def encode_nodes(
    encoder: Encoder, graph: Graph, scaling: Scaling, place: EncodingSettings, console: Console
) -> Iterator[Rows]:
    """Yield the encoder's output [N, width] for all nodes, mapped from a file that is removed afterwards.

    Nothing is sampled: the output is that of one pass over the whole graph, up to rounding. The graph may differ from
    that of the training, if its features are the same; `scaling` is that of the training.

    Memory: 8 bytes per node (36 where the graph is directed), two blocks of rows, and for each thread a piece of at
    most 4,096 rows; never more than `memory_gb`, beside the program, the mapped files and, on a GPU, its own memory.
    Disk: 4 x width bytes per node and layer, once more for layers that multiply before they gather.

    Rows are the same bytes whatever the threads and the blocks, where these are whole multiples of a piece, as they are
    unless memory is very small; otherwise, and on a GPU, they agree within rounding.
    """
    encoding = _Encoding(encoder.to(place.device).eval(), graph, scaling, place, console)
    encoding.run()
    yield encoding.vectors()
    encoding.scratch.remove()


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


class _Encoding:
    """The steps of one encoding and the files between them."""

    def __init__(
        self, encoder: Encoder, graph: Graph, scaling: Scaling, place: EncodingSettings, console: Console
    ) -> None:
        self._encoder, self._graph, self._scaling, self._place = encoder, graph, scaling, place
        self._console = console
        self._adjacency = NormalisedAdjacency.of(graph, *encoder.adjacency)
        self._steps = plan_steps(encoder, graph, self._adjacency, scaling)
        self._sizes = sizes_of(graph, scaling, self._steps, place.memory_gb, torch.get_num_threads(), place.rows)
        made_from = fingerprint_of([place.made_from, graph.fingerprint])
        self._widths = {step.file: step.width for step in self._steps}
        self.scratch = Scratch(place.folder, made_from, graph.num_nodes, self._widths)
        self._allocated = 0

    def run(self) -> None:
        """Compute the missing rows of every step's file."""
        missing = {step.file: self.scratch.missing(step.file) for step in self._steps}
        rows = {file: sum(end - first for first, end in ranges) for file, ranges in missing.items()}
        self._check_disk(rows)
        num_nodes, to_do = self._graph.num_nodes, sum(rows.values())
        total = num_nodes * len(self._steps)
        self._console.event(
            self._place.label, "encoding", nodes=num_nodes, steps=[step.file for step in self._steps],
            block_rows=self._sizes.block, memory_bound_bytes=self._sizes.allocated, rows=to_do, rows_kept=total - to_do,
            resumed=self.scratch.resumed, device=str(self._place.device),
        )  # fmt: skip
        progress = self._console.progress(self._place.label, total, "rows", total - to_do)
        with single_threaded(self._sizes.threads) as in_pieces, progress as advance:
            for step in self._steps:
                self._compute(step, missing[step.file], in_pieces, advance)

    def vectors(self) -> Rows:
        """The output of the last step."""
        return self.scratch.map(self._steps[-1].file)

    def _compute(self, step: Step, missing: Ranges, in_pieces: InPieces, advance: Advance) -> None:
        """Compute the missing rows of a step's file, block by block."""
        began, rows, blocks = time.monotonic(), 0, 0
        for first, block in one_ahead(self._blocks(step, missing, in_pieces)):
            self.scratch.write(step.file, first, block)
            rows, blocks = rows + len(block), blocks + 1
            self._allocated = max(self._allocated, machine.allocated_memory())
            rate = rows / max(time.monotonic() - began, 1e-9)
            advance(len(block), note=f"{step.file.removesuffix('.raw')}, {rate:,.0f} rows/s")
        seconds = time.monotonic() - began
        self._console.event(
            self._place.label, "layer", kind=step.kind, file=step.file, width=step.width, blocks=blocks, rows=rows,
            rows_kept=self._graph.num_nodes - rows, seconds=round(seconds, 3), rows_per_s=rows / max(seconds, 1e-9),
            allocated_bytes=self._allocated, peak_bytes=machine.peak_memory(),
        )  # fmt: skip

    def _blocks(self, step: Step, missing: Ranges, in_pieces: InPieces) -> Iterator[tuple[int, Rows]]:
        """The missing blocks of a step's file, each with its first row."""
        ranges = [block for part in missing for block in aligned(*part, self._sizes.block)]
        gather = self._gatherer(step) if step.kind == "gather" and ranges else None
        below = self.scratch.map(step.below) if step.below else None
        for first, end in ranges:
            out = np.empty((end - first, step.width), np.float32)
            pieces = pieces_of(self._entries(step, gather), self._sizes, first, end)
            in_pieces(functools.partial(self._piece, step, below, gather, out, first), pieces)
            yield first, out

    def _entries(self, step: Step, gather: Gather | None) -> npt.NDArray[np.int64] | None:
        """The row pointers of the entries that a piece copies."""
        if isinstance(gather, GpuGather):
            return self._adjacency.indptr
        features = self._graph.features
        return features.indptr if step.below is None and isinstance(features, SparseFeatures) else None

    def _gatherer(self, step: Step) -> Gather:
        source = self.scratch.map(step.gathered) if step.gathered else self._graph.features
        assert not isinstance(source, SparseFeatures)
        return gatherer(self._adjacency, source, self._encoder.layer(step.layer), self._place.device)

    def _piece(
        self, step: Step, below: Rows | None, gather: Gather | None, out: Rows, first: int, low: int, high: int
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

    def _rows(self, below: Rows | None, low: int, high: int) -> Tensor | SparsePair:
        """Rows of the layer below on the device; those of the features are scaled, and sparse where they can be."""
        features, device = self._graph.features, self._place.device
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

    def _check_disk(self, rows: dict[str, int]) -> None:
        need = sum(4 * self._widths[file] * number for file, number in rows.items())
        free = machine.free_disk(self._place.folder)
        if need > free:
            raise RunError(
                f"{self._place.folder}: the layers of {self._graph.num_nodes:,} nodes take {format_bytes(need)} of "
                f"disk and {format_bytes(free)} are free; free some space there and rerun the command"
            )
