"""The encoder's output for all nodes, layer by layer, in blocks of rows: exact, larger than memory, restartable."""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from gscl_scale import machine
from gscl_scale.config.runtime import RuntimeConfig
from gscl_scale.embed.block_tasks import BlockTask, SharedEncoding, Written, compute_block
from gscl_scale.embed.blocks import Blocks, single_threaded
from gscl_scale.embed.layer_files import Step
from gscl_scale.embed.plan import aligned
from gscl_scale.embed.scratch import Scratch
from gscl_scale.embed.spread import MachineDisks
from gscl_scale.embed.tiles import Ranges
from gscl_scale.errors import LostRowsError, RunError
from gscl_scale.graph.graph import Graph
from gscl_scale.io.checksum import fingerprint_of
from gscl_scale.model.device import chosen_device
from gscl_scale.model.encoder import Encoder
from gscl_scale.model.scaling import Scaling
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.runner import Runner
from gscl_scale.runtime.threads import one_ahead
from gscl_scale.text import format_bytes

Rows = npt.NDArray[np.float32]
Advance = Callable[..., None]

_TASKS_PER_WORKER = 4  # at least: a block ends at another time than the others
_MOST_LOSSES = 20  # of machines with rows on their disks, in one encoding


@dataclass(frozen=True)
class EncodingSettings:
    """Where the encoding is done, and with what.

    folder      scratch: removed at the end, continued after a kill
    made_from   fingerprint of the weights; scratch of others is removed
    memory_gb   memory to allocate at most, beside the program itself and the files that it maps
    label       the stage that encodes, in log and progress
    rows        rows of a block; None: as many as the memory allows
    threads     that compute; 0: those of torch
    tiles       whether gathered rows are read in tiles; auto: where the memory has no room for them
    disks       folder on the disk of each machine of a cluster, for all layers but the last; None: they share `folder`
    """

    folder: Path
    made_from: str
    device: torch.device
    memory_gb: float = 4.0
    label: str = "embed"
    rows: int | None = None
    threads: int = 0
    tiles: Literal["auto"] | bool = "auto"
    disks: Path | None = None

    @classmethod
    def of(cls, runtime: RuntimeConfig, folder: Path, made_from: str, label: str) -> "EncodingSettings":
        """With device and memory of the config; on a cluster with what each of its processes has."""
        if runtime.engine == "ray":
            device, threads = torch.device("cuda" if runtime.worker_gpus else "cpu"), max(1, int(runtime.worker_cpus))
            disks = Path(runtime.embed_scratch) if runtime.embed_scratch else None
        else:
            device, threads, disks = chosen_device(runtime), 0, None
        return cls(
            folder, made_from, device, runtime.embed_memory_gb, label, threads=threads, tiles=runtime.embed_tiles,
            disks=disks,
        )  # fmt: skip


@contextlib.contextmanager
def encode_nodes(
    encoder: Encoder,
    graph: Graph,
    scaling: Scaling,
    place: EncodingSettings,
    console: Console,
    runner: Runner | None = None,
) -> Iterator[Rows]:
    """Yield the encoder's output [N, width] for all nodes, mapped from a file that is removed afterwards.

    Nothing is sampled: the output is that of one pass over the whole graph, up to rounding. The graph may differ from
    that of the training, if its features are the same; `scaling` is that of the training. With a `runner`, whose
    machines share the folder, its tasks compute the blocks.

    Memory: 8 bytes per node (36 where the graph is directed), two blocks of rows, and for each thread a piece of at
    most 4,096 rows; never more than `memory_gb`, beside the program, the mapped files and, on a GPU, its own memory.
    Disk: 4 x width bytes per node and layer, once more for layers that multiply before they gather.

    Rows are the same bytes whatever the threads, the blocks and the machines, where blocks are whole multiples of a
    piece, as they are unless memory is very small; otherwise, and on a GPU, they agree within rounding.
    """
    encoding = _Encoding(encoder, graph, scaling, place, console, runner)
    encoding.run()
    yield encoding.vectors()
    encoding.scratch.remove()


class _Encoding:
    """The steps of one encoding and the files between them."""

    def __init__(
        self,
        encoder: Encoder,
        graph: Graph,
        scaling: Scaling,
        place: EncodingSettings,
        console: Console,
        runner: Runner | None,
    ) -> None:
        self._graph, self._place, self._console, self._runner = graph, place, console, runner
        made_from = fingerprint_of([place.made_from, graph.fingerprint])
        threads = place.threads or torch.get_num_threads()
        here, disks = torch.device("cpu") if runner else place.device, None
        if runner and place.disks:
            disks = MachineDisks(place.disks, fingerprint_of(str(place.folder.absolute())))
        self._blocks = Blocks(
            encoder, graph, scaling, place.folder, here, place.memory_gb, threads, place.rows,
            True if disks else place.tiles,
        )  # fmt: skip
        self._steps, sizes = self._blocks.steps, self._blocks.sizes
        self._shared = SharedEncoding(
            place.folder.absolute(), disks, made_from, graph.folder.absolute(), str(place.device), place.memory_gb,
            threads, place.rows, sizes.tile > 0, encoder, scaling,
        )  # fmt: skip
        self._block_rows = sizes.block
        if runner:  # in tiles, fewer tasks read less
            tasks = (1 if sizes.tile else _TASKS_PER_WORKER) * runner.workers
            self._block_rows = sizes.block_for(graph.num_nodes, tasks)
        self._widths = {step.file: step.width for step in self._steps}
        self.scratch = Scratch(place.folder, made_from, graph.num_nodes, self._widths, disks)
        self._allocated = 0

    def run(self) -> None:
        """Compute the missing rows of every step's file; again those that are lost with a machine meanwhile."""
        for losses in itertools.count(1):
            try:
                self._run()
            except LostRowsError as error:
                if losses == _MOST_LOSSES:
                    raise
                self._console.event(self._place.label, "lost rows", reason=str(error))
            else:
                return

    def _run(self) -> None:
        missing = self._missing()
        rows = {file: sum(end - first for first, end in ranges) for file, ranges in missing.items()}
        self._check_disk(rows)
        num_nodes, to_do = self._graph.num_nodes, sum(rows.values())
        total = num_nodes * len(self._steps)
        sizes = self._blocks.sizes
        self._console.event(
            self._place.label, "encoding", nodes=num_nodes, steps=[step.file for step in self._steps],
            block_rows=self._block_rows, tile_rows=sizes.tile, memory_bound_bytes=sizes.allocated, rows=to_do,
            rows_kept=total - to_do, resumed=self.scratch.resumed, device=str(self._place.device),
            processes=self._runner.workers if self._runner else 1,
        )  # fmt: skip
        progress = self._console.progress(self._place.label, total, "rows", total - to_do)
        with progress as advance:
            for step in self._steps:
                self._compute(step, missing[step.file], advance)

    def _missing(self) -> dict[str, list[tuple[int, int]]]:
        """The missing rows of each step's file; none of a file that only steps with all their rows read."""
        needed, missing = {self._steps[-1].file}, {}
        for step in reversed(self._steps):
            missing[step.file] = self.scratch.missing(step.file) if step.file in needed else []
            if missing[step.file]:
                needed |= {file for file in (step.below, step.gathered) if file}
        return missing

    def vectors(self) -> Rows:
        """The output of the last step."""
        return self.scratch.map(self._steps[-1].file)

    def _compute(self, step: Step, missing: Ranges, advance: Advance) -> None:
        """Compute the missing rows of a step's file, block by block."""
        ranges = [block for part in missing for block in aligned(*part, self._block_rows)]
        began, rows = time.monotonic(), 0
        for written in self._by_tasks(step, ranges) if self._runner else self._here(step, ranges):
            first, end, crc32, node = written
            self.scratch.record(step.file, first, end, crc32, node)
            rows += end - first
            self._allocated = max(self._allocated, machine.allocated_memory())
            rate = rows / max(time.monotonic() - began, 1e-9)
            advance(end - first, note=f"{step.file.removesuffix('.raw')}, {rate:,.0f} rows/s")
        seconds = time.monotonic() - began
        self._console.event(
            self._place.label, "layer", kind=step.kind, file=step.file, width=step.width, blocks=len(ranges), rows=rows,
            rows_kept=self._graph.num_nodes - rows, seconds=round(seconds, 3), rows_per_s=rows / max(seconds, 1e-9),
            allocated_bytes=self._allocated, peak_bytes=machine.peak_memory(),
        )  # fmt: skip

    def _here(self, step: Step, ranges: Ranges) -> Iterator[Written]:
        """Write the blocks, one while the next is computed."""
        with single_threaded(self._shared.threads) as in_pieces:
            computed = ((first, self._blocks.compute(step, first, end, in_pieces)) for first, end in ranges)
            for first, rows in one_ahead(computed):
                yield Written(first, first + len(rows), self.scratch.write(step.file, first, rows))

    def _by_tasks(self, step: Step, ranges: Ranges) -> Iterator[Written]:
        """Blocks that tasks have written, as they finish."""
        assert self._runner
        number, read = self._steps.index(step), dict.fromkeys(file for file in (step.below, step.gathered) if file)
        places = tuple((file, found) for file in read if (found := self.scratch.places(file)))
        yield from self._runner.run(compute_block, (BlockTask(self._shared, number, places, *part) for part in ranges))

    def _check_disk(self, rows: dict[str, int]) -> None:
        here = {self._steps[-1].file} if self._shared.disks else set(rows)
        need = sum(4 * self._widths[file] * rows[file] for file in here)
        free = machine.free_disk(self._place.folder)
        if need > free:
            raise RunError(
                f"{self._place.folder}: the layers of {self._graph.num_nodes:,} nodes take {format_bytes(need)} of "
                f"disk and {format_bytes(free)} are free; free some space there and rerun the command"
            )
