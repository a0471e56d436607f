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
from gscl_scale.embed.aggregate import Gather, OnDevice, gatherer
from gscl_scale.embed.plan import Step, aligned, pieces_of, plan_steps, sizes_of, stays_sparse
from gscl_scale.embed.scratch import Scratch
from gscl_scale.errors import RunError
from gscl_scale.graph.adjacency import Messages
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import SparseFeatures
from gscl_scale.io.checksum import fingerprint_of
from gscl_scale.model.device import chosen_device
from gscl_scale.model.encoder import AnyLayer, Encoder, SageLayer
from gscl_scale.model.propagation import SparsePair, rows_of
from gscl_scale.model.scaling import Scaling, sparse_rows
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.threads import ahead
from gscl_scale.text import in_words

Advance = Callable[..., None]
InPieces = Callable[[Callable[[int, int], None], Iterable[tuple[int, int]]], None]


@dataclass(frozen=True)
class Workplace:
    """Where the work is done, and with what.

    folder      scratch: removed at the end, continued where it was left
    made_from   fingerprint of the weights; scratch of others is thrown away
    memory_gb   what may be allocated, beside the program itself and the files that it maps
    label       the stage that asks, in log and progress
    rows        rows of a block; None: as many as the memory allows
    """

    folder: Path
    made_from: str
    device: torch.device
    memory_gb: float = 4.0
    label: str = "embed"
    rows: int | None = None

    @classmethod
    def of(cls, runtime: RuntimeConfig, folder: Path, made_from: str, label: str) -> "Workplace":
        """As the config says."""
        return cls(folder, made_from, chosen_device(runtime), runtime.embed_memory_gb, label)


@contextlib.contextmanager
def encode_nodes(
    encoder: Encoder, graph: Graph, scaling: Scaling, place: Workplace, console: Console
) -> Iterator[npt.NDArray[np.float32]]:
    """Yield the encoder's output [N, width] for all nodes, mapped from a file that goes when the block is left.

    Nothing is sampled: it is what one pass over the whole graph gives, up to rounding. The graph may be another one
    than that of the training, with other nodes, if its features are the same; `scaling` is that of the training.

    Memory: 8 bytes per node (36 where the graph is directed), two blocks of rows, and for each thread a piece of at
    most 4,096 rows; never more than `memory_gb`, beside the program, the mapped files and, on a GPU, its own memory.
    Disk: 4 x width bytes per node and layer, once more for layers that multiply before they gather.

    Rows are the same bytes whatever the threads and the blocks, where these are whole multiples of a piece, as they are
    unless memory is very small; otherwise, and on a GPU, they agree within rounding.
    """
    work = _Work(encoder.to(place.device).eval(), graph, scaling, place, console)
    work.run()
    yield work.vectors()
    work.scratch.remove()


@contextlib.contextmanager
def single_threaded(threads: int) -> Iterator[InPieces]:
    """Yield a function that runs another over ranges, on so many threads for each of which torch has one.

    A range is then computed alike whatever the number of threads, and no thread waits for another within it.
    """
    before = torch.get_num_threads()

    def begin() -> None:
        torch.set_num_threads(1)

    def run_on(pool: ThreadPoolExecutor) -> InPieces:
        def run(function: Callable[[int, int], None], ranges: Iterable[tuple[int, int]]) -> None:
            def one(low: int, high: int) -> None:
                with torch.inference_mode():
                    function(low, high)

            for future in [pool.submit(one, *part) for part in ranges]:
                future.result()

        return run

    try:
        with ThreadPoolExecutor(threads, "embed", begin) as pool:
            yield run_on(pool)
    finally:
        torch.set_num_threads(before)  # for threads that begin later


class _Work:
    """The steps of one encoding and the files between them."""

    def __init__(self, encoder: Encoder, graph: Graph, scaling: Scaling, place: Workplace, console: Console) -> None:
        self._encoder, self._graph, self._scaling, self._place = encoder, graph, scaling, place
        self._console = console
        self._messages = Messages.of(graph, *encoder.messages)
        self._steps = plan_steps(encoder, graph, self._messages, scaling)
        self._sizes = sizes_of(graph, scaling, self._steps, place.memory_gb, torch.get_num_threads(), place.rows)
        made_from = fingerprint_of([place.made_from, graph.fingerprint])
        widths = {step.file: step.width for step in self._steps}
        self.scratch = Scratch(place.folder, made_from, graph.num_nodes, widths)
        self._most = 0

    def run(self) -> None:
        """Make what is missing of every step's file."""
        missing = {step.file: self.scratch.missing(step.file) for step in self._steps}
        self._check_disk(missing)
        num_nodes = self._graph.num_nodes
        total = num_nodes * len(self._steps)
        to_do = sum(end - first for ranges in missing.values() for first, end in ranges)
        self._console.event(
            self._place.label, "encoding", nodes=num_nodes, steps=[step.file for step in self._steps],
            block_rows=self._sizes.block, memory_bound_bytes=self._sizes.allocated, rows=to_do, rows_kept=total - to_do,
            resumed=self.scratch.resumed, device=str(self._place.device),
        )  # fmt: skip
        progress = self._console.progress(self._place.label, total, "rows", total - to_do)
        with single_threaded(self._sizes.threads) as in_pieces, progress as advance:
            for step in self._steps:
                self._make(step, missing[step.file], in_pieces, advance)

    def vectors(self) -> npt.NDArray[np.float32]:
        """The output of the last step."""
        return self.scratch.map(self._steps[-1].file)

    def _make(self, step: Step, missing: list[tuple[int, int]], in_pieces: InPieces, advance: Advance) -> None:
        """Make the missing rows of a step's file, block by block."""
        began, rows, blocks = time.monotonic(), 0, 0
        for first, block in ahead(self._blocks(step, missing, in_pieces)):
            self.scratch.write(step.file, first, block)
            rows, blocks = rows + len(block), blocks + 1
            self._most = max(self._most, machine.allocated_memory())
            rate = rows / max(time.monotonic() - began, 1e-9)
            advance(len(block), note=f"{step.file.removesuffix('.raw')}, {rate:,.0f} rows/s")
        seconds = time.monotonic() - began
        self._console.event(
            self._place.label, "layer", kind=step.kind, file=step.file, width=step.width, blocks=blocks, rows=rows,
            rows_kept=self._graph.num_nodes - rows, seconds=round(seconds, 3), rows_per_s=rows / max(seconds, 1e-9),
            allocated_bytes=self._most, peak_bytes=machine.peak_memory(),
        )  # fmt: skip

    def _blocks(
        self, step: Step, missing: list[tuple[int, int]], in_pieces: InPieces
    ) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
        """The missing blocks of a step's file, each with its first row."""
        gather = self._gatherer(step) if step.kind == "gather" and missing else None
        below = self.scratch.map(step.below) if step.below else None
        for first, end in (block for part in missing for block in aligned(*part, self._sizes.block)):
            out = np.empty((end - first, step.width), np.float32)
            pieces = pieces_of(self._entries(step, gather), self._sizes, first, end)
            in_pieces(functools.partial(self._piece, step, below, gather, out, first), pieces)
            yield first, out

    def _entries(self, step: Step, gather: Gather | None) -> npt.NDArray[np.int64] | None:
        """The rows of which a piece copies the entries."""
        if isinstance(gather, OnDevice):
            return self._messages.indptr
        features = self._graph.features
        return features.indptr if step.below is None and isinstance(features, SparseFeatures) else None

    def _gatherer(self, step: Step) -> Gather:
        source = self.scratch.map(step.gathered) if step.gathered else self._graph.features
        assert not isinstance(source, SparseFeatures)
        return gatherer(self._messages, source, self._layer(step), self._place.device)

    def _layer(self, step: Step) -> AnyLayer:
        layer = self._encoder.layers[step.layer]
        assert isinstance(layer, AnyLayer)
        return layer

    def _piece(
        self,
        step: Step,
        below: npt.NDArray[np.float32] | None,
        gather: Gather | None,
        out: npt.NDArray[np.float32],
        first: int,
        low: int,
        high: int,
    ) -> None:
        """Rows low..high of a step's file, into a block that begins with row `first`."""
        layer = self._layer(step)
        if gather is None:
            rows = self._rows(below, low, high)
            found = layer.messages(rows) if step.kind == "multiply" else rows
            assert isinstance(found, Tensor)
        else:
            gathered = gather(low, high)
            if step.gathered == step.below:
                gathered = layer.messages(gathered)
            own = self._rows(below, low, high) if isinstance(layer, SageLayer) else None
            found = self._encoder.activate(step.layer, layer.finish(gathered, own))
        out[low - first : high - first] = found.cpu().numpy()

    def _rows(self, below: npt.NDArray[np.float32] | None, low: int, high: int) -> Tensor | SparsePair:
        """Rows of the layer below on the device; of the features these are scaled, and sparse where they can be."""
        if below is not None:
            return torch.from_numpy(np.array(below[low:high])).to(self._place.device)
        features = self._graph.features
        if not isinstance(features, SparseFeatures):
            return torch.from_numpy(self._scaling.dense(features[low:high])).to(self._place.device)
        rows = sparse_rows(features, low, high)
        if stays_sparse(self._graph, self._scaling):
            return rows_of(rows, self._scaling.sparse(rows)).to(self._place.device)
        matrix = sp.csr_array((rows.values, rows.indices, rows.indptr), shape=(high - low, rows.width))
        return torch.from_numpy(self._scaling.dense(matrix.toarray())).to(self._place.device)

    def _check_disk(self, missing: dict[str, list[tuple[int, int]]]) -> None:
        widths = {step.file: step.width for step in self._steps}
        rows = [(widths[name], end - first) for name, ranges in missing.items() for first, end in ranges]
        need = sum(4 * width * number for width, number in rows)
        free = machine.free_disk(self._place.folder)
        if need > free:
            raise RunError(
                f"{self._place.folder}: the layers of {self._graph.num_nodes:,} nodes take {in_words(need)} of disk "
                f"and {in_words(free)} are free; make room there, then run the same command again"
            )
