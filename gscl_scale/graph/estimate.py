"""Memory and disk that bringing a graph takes, told before the start, and refused where this machine has less."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import numpy as np

from gscl_scale import machine
from gscl_scale.config.graphs import GraphConfig
from gscl_scale.errors import GraphError
from gscl_scale.graph import csr
from gscl_scale.graph.draft import Draft
from gscl_scale.graph.sources.read import read
from gscl_scale.graph.types import Size
from gscl_scale.runtime.threads import num_threads
from gscl_scale.text import in_words

_PROGRAM = 500 << 20  # bytes of the interpreter and its libraries
_PER_NODE = 24  # bytes: ids, indptr, and degrees or codes of labels
_STRUCTURE_FILES = 3
_FLOAT = 4


@dataclass(frozen=True)
class Need:
    """Bytes at the peak; `sorting` is the part of the memory that graph.memory_mb bounds."""

    memory: int
    sorting: int
    disk: int


def read_if_it_fits(config: GraphConfig, folder: Path, say: Callable[[str], None]) -> Draft:
    """Read a source after telling what it takes; once more where the number of nodes is known only then."""
    size = size_of(config)
    say(admit(size, config, folder))
    draft = read(config)
    if size.num_nodes is None:
        say(
            admit(
                replace(size, num_nodes=draft.num_nodes, num_edges=size.num_edges or _edges_in(draft)), config, folder
            )
        )
    return draft


def _edges_in(draft: Draft) -> int | None:
    return sum(source.size for source, _ in draft.edges) if isinstance(draft.edges, list) else None


def size_of(config: GraphConfig) -> Size:
    """What the source can say without being read; nothing where it has no function for it."""
    if config.source == "memory":
        return Size()
    tell: Callable[[GraphConfig], Size] | None = getattr(
        import_module(f"gscl_scale.graph.sources.{config.source}"), "size", None
    )
    return tell(config) if tell else Size()


def need_of(size: Size, config: GraphConfig, threads: int) -> Need:
    """The peaks that follow from a size; what is unknown counts nothing."""
    num_nodes, num_edges = size.num_nodes or 0, size.num_edges or 0
    item = np.dtype(csr.index_dtype(num_nodes)).itemsize
    entries = num_edges * (2 if config.undirected else 1)
    sorting = csr.sorting_bytes(num_nodes, entries, config.memory_mb << 20, threads)
    width = size.num_features if size.num_features is not None else config.structural_features
    made = 0 if size.num_features is not None else _STRUCTURE_FILES * _FLOAT * width * num_nodes
    reading = size.reading * num_nodes
    collecting = size.kept * num_nodes + size.chunks + csr.collecting_bytes(num_nodes, num_edges, config.undirected)
    building = (size.kept + _PER_NODE) * num_nodes + sorting
    columns = (_PER_NODE + _FLOAT * width) * num_nodes
    return Need(
        memory=_PROGRAM + size.fixed + max(reading, collecting, building),
        sorting=sorting,
        disk=size.waiting * num_nodes + max(2 * item * entries, item * entries + columns + made),
    )


def admit(size: Size, config: GraphConfig, folder: Path) -> str:
    """One line for the reader; an error where memory or disk are too small."""
    need, memory, disk = need_of(size, config, num_threads()), machine.available_memory(), machine.free_disk(folder)
    if size.num_nodes is None and size.num_edges is None:
        free = f"{in_words(memory)} of memory and {in_words(disk)} of disk are free"
        return f"how much {config.source} takes is known once it is read: {free}"
    about = "about" if None not in (size.num_nodes, size.num_edges) else "at least"
    if need.memory > memory:
        raise GraphError(
            f"{_what(size)} take {about} {in_words(need.memory)} of memory and {in_words(memory)} are available; "
            f"{_memory_cure(need, config, need.memory - memory)}"
        )
    if need.disk > disk:
        raise GraphError(
            f"{_what(size)} take {about} {in_words(need.disk)} of disk and {in_words(disk)} are free "
            f"in {folder.parent}; choose another --run on a larger disk{_smaller(config)}"
        )
    return (
        f"{_what(size)} take {about} {in_words(need.memory)} of memory ({in_words(memory)} available) "
        f"and {in_words(need.disk)} of disk ({in_words(disk)} free)"
    )


def _memory_cure(need: Need, config: GraphConfig, lacking: int) -> str:
    if need.sorting > lacking:
        lower = max(16, (need.sorting - lacking) // 2 >> 20)
        return f"set graph.memory_mb below {config.memory_mb}, such as {min(lower, config.memory_mb - 1)}"
    return f"use a machine with more memory{_smaller(config)}"


def _smaller(config: GraphConfig) -> str:
    return (
        ", or set a smaller graph.num_nodes, graph.mean_degree or graph.num_features"
        if config.source == "synthetic"
        else ""
    )


def _what(size: Size) -> str:
    counts = ((size.num_nodes, "nodes"), (size.num_edges, "edges"))
    return " and ".join(
        f"{count:,} {kind}" if count is not None else f"{kind} yet to be counted" for count, kind in counts
    )
