"""`bench neighbors`: nearest nodes by the exact search and by the index, on the same embeddings and cores."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from typing_extensions import TypedDict

from gscl_scale import seeding
from gscl_scale.bench.harness import Columns, Entry, Figures, table_of
from gscl_scale.bench.options import Neighbors
from gscl_scale.bench.processes import most_allocated
from gscl_scale.embed.store import Embeddings
from gscl_scale.embed.vector_file import Rows, write_parquet
from gscl_scale.io.json import read_json, write_json
from gscl_scale.neighbors.answers import searcher
from gscl_scale.neighbors.exact import Nearest
from gscl_scale.neighbors.index import recall_of
from gscl_scale.neighbors.places import EmbeddingSource
from gscl_scale.runtime.console import Console

Result = TypeVar("Result")

COUNT = 10
QUERIES = 1000
_GROUPS, _COMMUNITIES, _DIRECTIONS = 50, 2000, 8
_ROWS_AT_ONCE = 65536


@dataclass(frozen=True)
class Search(Entry):
    """One way to search one set of embeddings."""

    embeddings: str
    nodes: int
    width: int
    competitor: str


_SEARCHES: Columns[Search] = {
    "embeddings": lambda row: row.embeddings,
    "nodes": lambda row: f"{row.nodes:,}",
    "width": lambda row: str(row.width),
    "search": lambda row: row.competitor,
    "recall": lambda row: f"{row['recall']:.2%}",
    "ready": lambda row: f"{row['ready']:,.2f} s",
    "one node": lambda row: f"{row['one node']:,.2f} s",
    "queries/s": lambda row: f"{row['queries per second']:,.0f}",
    "memory": lambda row: f"{row['memory'] / 1e6:,.0f} MB",
}
_INDEXES: Columns[Search] = {
    "embeddings": lambda row: row.embeddings,
    "nodes": lambda row: f"{row.nodes:,}",
    "built in": lambda row: f"{row['index seconds']:,.1f} s",
    "memory": lambda row: f"{row['index memory'] / 1e6:,.0f} MB",
    "file": lambda row: f"{row['index file'] / 1e6:,.0f} MB",
    "lists": lambda row: f"{row['lists']:,.0f}",
    "searched": lambda row: f"{row['lists searched']:,.0f}",
}


def bench_neighbors(bench: Neighbors) -> str:
    """Measure, write neighbors.json and neighbors.md, and return the page."""
    entries: list[Search] = []
    with bench.scratch() as scratch:
        for number in bench.sizes:
            folder = (bench.keep or scratch) / f"rows-{number}-width-{bench.width}"
            if not (folder / "manifest.json").exists():
                draw_embeddings(folder, number, bench.width)
            entries += _measure(bench, folder, "drawn", scratch / f"index-{number}")
        for folder in bench.embeddings or []:
            entries += _measure(bench, folder, str(folder), scratch / f"index-of-{folder.name}")
    entries.sort(key=lambda entry: (entry.nodes, entry.embeddings, entry.competitor))
    versions = bench.versions(["numpy", "faiss-cpu"])
    sentence = (
        f"The {COUNT} nearest nodes by cosine; {bench.machine}, faiss {versions['faiss-cpu']}, numpy "
        f"{versions['numpy']}, each way in its own process. Both first read the queries' own rows from the Parquet "
        f"file. Queries per second are of one question about {QUERIES:,} nodes. Memory is what is allocated without "
        "the program and the files that it maps. Ready is the time to verify the index by its checksum and map it. "
        "Recall is the share of the exact answer that the search finds, on other nodes than those on which the index "
        f"chose how many lists it searches. Drawn embeddings lie in {_COMMUNITIES:,} communities of {_GROUPS} groups. "
        f"`{bench.command}` makes this page:"
    )
    indexes = [entry for entry in entries if entry.competitor == "index"]
    tables = table_of(entries, _SEARCHES, left=[0, 3]), "The index:", table_of(indexes, _INDEXES, left=[0])
    setting = {"count": COUNT, "queries": QUERIES}
    return bench.write("\n\n".join([sentence, *tables]), entries, setting, ["numpy", "faiss-cpu"])


def draw_embeddings(folder: Path, rows: int, width: int) -> None:
    """Draw embeddings in communities within groups; a node lies near a plane of a few directions of its community."""
    draw = seeding.generator("bench neighbors", rows, width)
    groups = draw.normal(size=(_GROUPS, width))
    centres = groups[draw.integers(0, _GROUPS, _COMMUNITIES)] + 0.7 * draw.normal(size=(_COMMUNITIES, width))
    directions = draw.normal(size=(_COMMUNITIES, width, _DIRECTIONS)).astype(np.float32)

    def blocks() -> Iterator[tuple[pa.Array, Rows]]:
        for low in range(0, rows, _ROWS_AT_ONCE):
            ids = np.arange(low, min(rows, low + _ROWS_AT_ONCE))
            community = draw.integers(0, _COMMUNITIES, ids.size)
            inside = draw.normal(size=(ids.size, _DIRECTIONS)).astype(np.float32)
            vectors = centres[community] + 0.1 * draw.normal(size=(ids.size, width))
            for number in range(_DIRECTIONS):
                vectors += 0.35 * inside[:, number, None] * directions[community, :, number]
            yield pa.array(ids), vectors.astype(np.float32)

    write_parquet(folder / "embeddings.parquet", pa.int64(), width, blocks())
    write_json(folder / "manifest.json", {"fingerprint": f"drawn {rows} {width}", "rows": rows, "width": width})


def _measure(bench: Neighbors, folder: Path, name: str, index: Path) -> list[Search]:
    """Build the index, search both ways, and compare the answers."""
    built = bench.alone(_build, folder, index)
    bench.say(f"index of {name} built in {built['index seconds'][0]:,.1f} s")
    right, exact = bench.alone(_search, folder, index, False)
    found, approximate = bench.alone(_search, folder, index, True)
    embeddings = Embeddings(folder)
    what = name, embeddings.rows, embeddings.width
    return [
        Search(*what, "exact", figures={**exact, "recall": (recall_of(right, right), "")}),
        Search(*what, "index", figures={**built, **approximate, "recall": (recall_of(found, right), "")}),
    ]


class _IndexManifest(TypedDict):
    bytes: int
    lists: int
    probes: int


def _build(folder: Path, index: Path) -> Figures:
    embeddings, place = Embeddings(folder), EmbeddingSource("", folder, index)
    with most_allocated() as allocated:
        _, seconds = _timed(lambda: searcher(embeddings, place, COUNT, True, Console(quiet=True)))
    manifest = read_json(index / "manifest.json", _IndexManifest)
    return {
        "index seconds": (seconds, "s"),
        "index memory": (allocated.more, "bytes"),
        "index file": (manifest["bytes"], "bytes"),
        "lists": (manifest["lists"], ""),
        "lists searched": (manifest["probes"], ""),
    }


def _search(folder: Path, index: Path, approximate: bool) -> tuple[Nearest, Figures]:
    """The answers for some nodes; `ready` ends when the first question may be asked of an index that exists."""
    embeddings, place = Embeddings(folder), EmbeddingSource("", folder, index)
    draw = seeding.generator("bench queries", embeddings.rows)
    nodes = np.sort(draw.choice(embeddings.rows, min(QUERIES, embeddings.rows), replace=False))
    with most_allocated() as allocated:
        (search, _), ready = _timed(lambda: searcher(embeddings, place, COUNT, approximate, Console(quiet=True)))
        _, one = _timed(lambda: search(nodes[:1]))
        found, many = _timed(lambda: search(nodes))
    return Nearest(found.rows, found.cosines), {
        "ready": (ready, "s"),
        "one node": (one, "s"),
        "queries per second": (len(nodes) / many, "1/s"),
        "memory": (allocated.more, "bytes"),
    }


def _timed(work: Callable[[], Result]) -> tuple[Result, float]:
    began = time.perf_counter()
    return work(), time.perf_counter() - began
