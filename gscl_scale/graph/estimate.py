"""Memory and disk that ingesting a graph takes: printed before it starts, and refused where this machine has less."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gscl_scale import machine
from gscl_scale.config.graphs import GraphConfig
from gscl_scale.errors import GraphError
from gscl_scale.graph import csr
from gscl_scale.graph.draft import GraphDraft
from gscl_scale.graph.features import feature_blocks
from gscl_scale.graph.row_file import RowStream
from gscl_scale.graph.sources.id_partitions import MOST_PARTITIONS
from gscl_scale.graph.sources.read import read, source_size
from gscl_scale.graph.types import ID_SHARE, ColumnEncoding, SourceSize
from gscl_scale.runtime.runner import Runner
from gscl_scale.runtime.settings import MemoryNeed
from gscl_scale.runtime.threads import num_threads
from gscl_scale.text import format_bytes

_PROGRAM = 500 << 20  # bytes of the interpreter and its libraries
_PER_NODE = 24  # bytes: ids, indptr, and degrees or codes of labels
_LABELS = 24  # bytes of a label while it is read, three times as many as later
_SPILLED_EDGE, _SPILLED_NODE = 2, 24  # bytes on disk beside the rows of an edge's ends; of a node's ids and its row
_STRUCTURE_FILES = 3
_FLOAT = 4
_PARTS_OF_TASK = 3  # of the edge table, which a task has at once
_LARGE = 256 << 20  # bytes beside the program


@dataclass(frozen=True)
class IngestNeed:
    """Bytes at the peak.

    memory    in all
    working   the part of it beside the interpreter and its libraries
    sorting   the part that graph.memory_mb bounds
    waiting   the part of the disk where ids wait that do not fit the memory
    """

    memory: int
    working: int
    sorting: int
    disk: int
    waiting: int = 0


def read_if_it_fits(
    config: GraphConfig,
    folder: Path,
    say: Callable[[str], None],
    preferred: Sequence[ColumnEncoding] = (),
    scratch: Path | None = None,
    runner: Runner | None = None,
) -> GraphDraft:
    """Read a source that fits this machine; sources that do not know their size are checked again once read.

    scratch   a folder for ids that do not fit the memory
    runner    reads edges by tasks, on machines that share this folder
    """
    size = source_size(config)
    by_tasks = runner is not None
    say(check_resources(size, config, folder, by_tasks=by_tasks))
    draft = read(config, preferred, scratch, runner)
    width = draft.features.shape[1] if isinstance(draft.features, RowStream) else size.num_features
    if size.num_nodes is None or (width or 0) > (size.num_features or 0):
        edges = sum(ends[0].size for ends in draft.edges) if isinstance(draft.edges, list) else None
        size = replace(size, num_nodes=draft.num_nodes, num_edges=size.num_edges or edges, num_features=width, fixed=0)
        say(check_resources(size, config, folder, machine.allocated_memory(), by_tasks))
    return draft


def is_large(config: GraphConfig, input_bytes: int = 0) -> bool:
    """Whether a source takes more memory than any process has to spare, or its files have more bytes."""
    return input_bytes > _LARGE or estimate_need(source_size(config), config, num_threads()).memory > _PROGRAM + _LARGE


def estimate_need(
    size: SourceSize, config: GraphConfig, threads: int, available: int = sys.maxsize, by_tasks: bool = False
) -> IngestNeed:
    """The peaks that follow from a size; what is unknown counts as zero.

    threads     that share the work of a process
    available   memory of the machine: ids wait on disk where they are more than a share of it
    by_tasks    whether tasks read the edges, see `task_bytes`: this process then joins what they write
    """
    num_nodes, num_edges = size.num_nodes or 0, size.num_edges or 0
    spills = size.spills and (by_tasks or size.resident * num_nodes > available // ID_SHARE)
    if spills:
        size = replace(size, reading=_LABELS, resident=0, chunks=size.chunks + (config.memory_mb << 20))
    item = np.dtype(csr.index_dtype(num_nodes)).itemsize
    entries = num_edges * (2 if config.undirected else 1)
    spooled = 3 if size.weighted else 2  # numbers of an entry in the buckets
    stored = item + _FLOAT * size.weighted  # bytes of an entry in the graph folder
    sorting = 0 if by_tasks else _sorting_bytes(size, config, threads)
    blocks = feature_blocks(size.num_features, config)
    structure = _STRUCTURE_FILES * _FLOAT * blocks.structural * num_nodes
    reading = size.reading * num_nodes
    adding = csr.collecting_bytes(num_nodes, num_edges, config.undirected, spooled)
    collecting = 0 if by_tasks else size.resident * num_nodes + size.chunks + adding
    building = (size.resident + _PER_NODE) * num_nodes + sorting
    columns = (_PER_NODE + _FLOAT * sum(blocks)) * num_nodes
    waiting = _waiting_bytes(num_nodes, num_edges, size.weighted) if spills else 0
    working = size.fixed + max(reading, collecting, building)
    return IngestNeed(
        memory=_PROGRAM + working,
        working=working,
        sorting=sorting,
        disk=size.unpacked
        + size.spooled * num_nodes
        + max(spooled * item * entries + waiting, stored * entries + columns + structure),
        waiting=waiting,
    )


def has_sections(config: GraphConfig) -> bool:
    """Whether tasks can read sections of a source's edges."""
    return config.source == "tables" or source_size(config).mapped


def memory_of_tasks(config: GraphConfig) -> MemoryNeed:
    """What tasks that read the edges take on a machine of a cluster."""
    return MemoryNeed(each=_PROGRAM + task_bytes(source_size(config), config))


def task_bytes(size: SourceSize, config: GraphConfig) -> int:
    """Memory of a task that reads a section of the edges, looks up a partition of the ids, or builds a bucket of rows.

    The interpreter and its libraries are not counted.
    """
    chunks = size.chunks * _PARTS_OF_TASK // (num_threads() + _PARTS_OF_TASK - 1)
    ids = size.resident * (size.num_nodes or 0)
    partition = max(min(ids, config.memory_mb << 20), ids // MOST_PARTITIONS)
    adding = csr.collecting_bytes(size.num_nodes or 0, size.num_edges or 0, config.undirected, 2 + size.weighted)
    return max(chunks, partition, adding, _sorting_bytes(size, config, 1))


def _sorting_bytes(size: SourceSize, config: GraphConfig, threads: int) -> int:
    entries = (size.num_edges or 0) * (2 if config.undirected else 1)
    columns = 3 if size.weighted else 2
    return csr.sorting_bytes(size.num_nodes or 0, entries, config.memory_mb << 20, threads, columns)


def _waiting_bytes(num_nodes: int, num_edges: int, weighted: bool) -> int:
    """Disk for ids that do not fit the memory, once the ends of edges have their rows."""
    rows = 2 * np.dtype(csr.index_dtype(num_nodes)).itemsize
    return (_SPILLED_EDGE + rows + 2 * _FLOAT * weighted) * num_edges + _SPILLED_NODE * num_nodes


def check_resources(size: SourceSize, config: GraphConfig, folder: Path, held: int = 0, by_tasks: bool = False) -> str:
    """Describe in one line what ingesting takes; GraphError where this machine has too little memory or disk.

    held       bytes of the need that this process has allocated already
    by_tasks   whether tasks read the edges, which machines of a cluster have the memory for
    """
    memory, disk = machine.available_memory() + held, machine.free_disk(folder)
    need = estimate_need(size, config, num_threads(), memory, by_tasks)
    if size.num_nodes is None and size.num_edges is None:
        return _describe_uncounted(size, need, config, memory, disk)
    counts = ((size.num_nodes, "nodes"), (size.num_edges, "edges"))
    subject = " and ".join(
        f"an unknown number of {kind}" if count is None else f"{count:,} {kind}" for count, kind in counts
    )
    about = "about" if None not in (size.num_nodes, size.num_edges) else "at least"
    smaller = ", or set a smaller graph.num_nodes, graph.mean_degree or graph.num_features"
    smaller = smaller if config.source == "synthetic" else ""
    if (lacking := need.memory - memory) > 0:
        cure = f"use a machine with more memory{smaller}"
        if need.sorting > lacking:
            lower = min(max(16, (need.sorting - lacking) // 2 >> 20), config.memory_mb - 1)
            cure = f"set graph.memory_mb below {config.memory_mb}, such as {lower}"
        raise GraphError(
            f"{subject} take {about} {format_bytes(need.memory)} of memory and {format_bytes(memory)} are "
            f"available; {cure}"
        )
    if need.disk > disk:
        raise GraphError(
            f"{subject} take {about} {format_bytes(need.disk)} of disk and {format_bytes(disk)} are free "
            f"in {folder.parent}; choose another --run on a larger disk{smaller}"
        )
    return (
        f"{subject} take {about} {format_bytes(need.memory)} of memory ({format_bytes(memory)} available) "
        f"and {format_bytes(need.disk)} of disk ({format_bytes(disk)} free)"
    )


def _describe_uncounted(size: SourceSize, need: IngestNeed, config: GraphConfig, memory: int, disk: int) -> str:
    """Describe a source of which at most the bytes of its files are known; GraphError where these do not fit."""
    free = f"{format_bytes(memory)} of memory and {format_bytes(disk)} of disk are free"
    if not size.fixed:
        return f"Reading the graph (source {config.source}); its size is not known yet ({free})"
    if need.memory > memory:
        raise GraphError(
            f"source {config.source}: its files of {format_bytes(size.fixed)} take at least "
            f"{format_bytes(need.memory)} of memory and {format_bytes(memory)} are available; use a machine with more "
            "memory"
        )
    return (
        f"Reading the graph (source {config.source}); it takes at least {format_bytes(need.memory)} of memory ({free})"
    )
