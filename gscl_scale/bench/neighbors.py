"""`bench neighbors`: nearest nodes by the exact search and by the index, on the same embeddings and cores."""

import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gscl_scale import machine, seeding
from gscl_scale.bench.processes import in_process, most_allocated
from gscl_scale.embed.store import Embeddings, Rows, write_parquet
from gscl_scale.io.atomic import write_text
from gscl_scale.io.json import read_json, write_json
from gscl_scale.machine import processor_name, usable_cores
from gscl_scale.neighbors.answers import searcher
from gscl_scale.neighbors.exact import Nearest
from gscl_scale.neighbors.index import recall_of
from gscl_scale.neighbors.places import Place
from gscl_scale.runtime.console import Console
from gscl_scale.text import cores_of, table
from gscl_scale.version import __version__

COUNT = 10
QUERIES = 1000
_GROUPS, _COMMUNITIES, _DIRECTIONS = 50, 2000, 8
_ROWS_AT_ONCE = 65536


@dataclass(frozen=True)
class NeighborsBench:
    """What to measure: embeddings to draw by their number, and embeddings folders that exist.

    command   what to type to measure this again
    """

    rows: Sequence[int]
    folders: Sequence[Path]
    width: int = 128
    command: str = ""


@dataclass(frozen=True)
class Searched:
    """One way to search, in a process of its own.

    ready_seconds   until the first question may be asked, the index being there
    one_seconds     of a question about one node; `many_seconds` of one about all queries
    allocated       the most that was allocated at any time, beyond what it began with
    """

    competitor: str
    ready_seconds: float
    one_seconds: float
    many_seconds: float
    allocated: int
    rows: npt.NDArray[np.int64]
    cosines: Rows


@dataclass(frozen=True)
class Built:
    """How the index was built."""

    seconds: float
    allocated: int
    file_bytes: int
    lists: int
    probes: int


def bench_neighbors(asked: NeighborsBench, out: Path, keep: Path | None, console: Console) -> str:
    """Measure, write neighbors.json and neighbors.md into `out`, and return the Markdown."""
    out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=out, prefix=".bench-") as place:
        for number in sorted(asked.rows):
            folder = (keep or Path(place)) / f"rows-{number}-width-{asked.width}"
            if not (folder / "manifest.json").exists():
                draw_embeddings(folder, number, asked.width)
            rows += _measure(folder, "drawn", Path(place) / f"index-{number}", console)
        for folder in asked.folders:
            rows += _measure(folder, str(folder), Path(place) / f"index-of-{folder.name}", console)
    written = {"setting": _setting(asked), "rows": rows}
    page = neighbors_page(written)
    write_json(out / "neighbors.json", written)
    write_text(out / "neighbors.md", page + "\n")
    return page


def draw_embeddings(folder: Path, rows: int, width: int) -> None:
    """Embeddings in communities within groups; inside its community a node lies near a plane of a few directions."""
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


def _measure(folder: Path, name: str, index: Path, console: Console) -> list[dict[str, Any]]:
    """Build the index, ask both ways, and compare the answers."""
    cores = usable_cores()
    built: Built = in_process(cores, _build, folder, index)
    console.say(f"bench neighbors: index of {name} built in {built.seconds:,.1f} s")
    exact, approximate = (in_process(cores, _ask, folder, index, by_index) for by_index in (False, True))
    embeddings = Embeddings(folder)
    place = {"embeddings": name, "nodes": embeddings.rows, "width": embeddings.width}
    right = Nearest(exact.rows, exact.cosines)
    figures = {
        "index seconds": (built.seconds, "s"),
        "index memory": (built.allocated, "bytes"),
        "index file": (built.file_bytes, "bytes"),
        "lists": (built.lists, ""),
        "lists searched": (built.probes, ""),
    }
    rows = [
        {**place, "competitor": "index", "figure": figure, "value": value, "unit": unit}
        for figure, (value, unit) in figures.items()
    ]
    for one in (exact, approximate):
        figures = {
            "ready": (one.ready_seconds, "s"),
            "one node": (one.one_seconds, "s"),
            "queries per second": (len(one.rows) / one.many_seconds, "1/s"),
            "memory": (one.allocated, "bytes"),
            "recall": (recall_of(Nearest(one.rows, one.cosines), right), ""),
        }
        rows += [
            {**place, "competitor": one.competitor, "figure": figure, "value": value, "unit": unit}
            for figure, (value, unit) in figures.items()
        ]
    return rows


def _build(folder: Path, index: Path) -> Built:
    embeddings, place = Embeddings(folder), Place("", folder, index)
    before, began = machine.allocated_memory(), time.perf_counter()
    with most_allocated() as most:
        searcher(embeddings, place, COUNT, True, Console(quiet=True))
    seconds = time.perf_counter() - began
    about = read_json(index / "manifest.json")
    return Built(seconds, max(most) - before, about["bytes"], about["lists"], about["probes"])


def _ask(folder: Path, index: Path, approximate: bool) -> Searched:
    embeddings, place = Embeddings(folder), Place("", folder, index)
    draw = seeding.generator("bench queries", embeddings.rows)
    nodes = np.sort(draw.choice(embeddings.rows, min(QUERIES, embeddings.rows), replace=False))
    before = machine.allocated_memory()
    with most_allocated() as most:
        (search, _), ready = _timed(lambda: searcher(embeddings, place, COUNT, approximate, Console(quiet=True)))
        _, one = _timed(lambda: search(nodes[:1]))
        found, many = _timed(lambda: search(nodes))
    name = "index" if approximate else "exact"
    return Searched(name, ready, one, many, max(most) - before, found.rows, found.cosines)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    return work(), time.perf_counter() - began


def _setting(asked: NeighborsBench) -> dict[str, Any]:
    versions = {"gscl_scale": __version__, "python": platform.python_version()}
    return {
        "command": asked.command,
        "count": COUNT,
        "queries": QUERIES,
        "processor": processor_name(),
        "cores": len(usable_cores()),
        "versions": {**versions, **{name: version(name) for name in ("numpy", "faiss-cpu")}},
    }


def neighbors_page(written: dict[str, Any]) -> str:
    """Markdown: how it was measured, a table of both ways to search, and one of the index."""
    setting = written["setting"]
    sentence = (
        f"The {setting['count']} nearest nodes by cosine; {cores_of(setting['cores'])} of {setting['processor']}, "
        f"faiss {setting['versions']['faiss-cpu']}, numpy {setting['versions']['numpy']}, each way in a process of its "
        f"own. Both read the queries' own rows from the Parquet file first. Queries per second are of one question "
        f"about {setting['queries']:,} nodes; memory is what is allocated beside the program and the files that it "
        "maps; ready is the time to compare the index with its checksum and map it. Recall is the share of the exact "
        "answer that is found, on other nodes than those on which the index chose how many lists it searches. Drawn "
        "embeddings lie in 2,000 communities of 50 groups. "
        f"`{setting['command']}` makes this page:"
    )
    figures: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in written["rows"]:
        key = row["embeddings"], row["nodes"], row["width"], row["competitor"]
        figures.setdefault(key, {})[row["figure"]] = row["value"]
    order = sorted(figures.items(), key=lambda item: (item[0][1], item[0][0], item[0][3]))
    return "\n\n".join([sentence, _searches(order), "The index:", _indexes(order)])


def _searches(figures: list[tuple[tuple[Any, ...], dict[str, float]]]) -> str:
    lines = [
        [
            name,
            f"{nodes:,}",
            str(width),
            competitor,
            f"{of['recall']:.2%}",
            f"{of['ready']:,.2f} s",
            f"{of['one node']:,.2f} s",
            f"{of['queries per second']:,.0f}",
            f"{of['memory'] / 1e6:,.0f} MB",
        ]
        for (name, nodes, width, competitor), of in figures
    ]
    headers = ["embeddings", "nodes", "width", "search", "recall", "ready", "one node", "queries/s", "memory"]
    return table(headers, lines, left=(0, 3))


def _indexes(figures: list[tuple[tuple[Any, ...], dict[str, float]]]) -> str:
    lines = [
        [
            name,
            f"{nodes:,}",
            f"{of['index seconds']:,.1f} s",
            f"{of['index memory'] / 1e6:,.0f} MB",
            f"{of['index file'] / 1e6:,.0f} MB",
            f"{of['lists']:,.0f}",
            f"{of['lists searched']:,.0f}",
        ]
        for (name, nodes, _, competitor), of in figures
        if competitor == "index"
    ]
    headers = ["embeddings", "nodes", "built in", "memory", "file", "lists", "searched"]
    return table(headers, lines, left=(0,))
