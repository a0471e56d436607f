"""Node-property data sets of the Open Graph Benchmark, read by the ogb package."""

import contextlib
import difflib
import gzip
import io
import shutil
import sys
import urllib.request
import zipfile
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any, NotRequired

import numpy as np
import numpy.typing as npt
from typing_extensions import TypedDict

from gscl_scale.config.graphs import OgbGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import GraphDraft
from gscl_scale.graph.label_sets import is_indicator
from gscl_scale.graph.sources.archive import read_arrays, read_heads
from gscl_scale.graph.sources.array_edges import edges_of_arrays
from gscl_scale.graph.sources.explain import explained
from gscl_scale.graph.sources.ogb_size import MAPPED, binary_size, text_size
from gscl_scale.graph.sources.splits import split_from_rows
from gscl_scale.graph.types import SourceSize
from gscl_scale.io.atomic import publish_file, publish_folder
from gscl_scale.io.validate import refuse_special
from gscl_scale.machine import available_memory, free_disk
from gscl_scale.runtime.extras import need_package
from gscl_scale.runtime.runner import Runner
from gscl_scale.text import format_bytes, quoted, shortened

_TIMEOUT_S = 60
_COUNTS = 1 << 20  # bytes of text that the numbers of nodes and edges may take
_BYTES_OF_VALUES = 4  # of memory for a byte of text: a digit and its comma become a value
_PARTS = {"train": "train", "val": "valid", "test": "test"}
_DAMAGE = (
    OSError, EOFError, ValueError, LookupError, RuntimeError, TypeError, AttributeError, OverflowError, MemoryError,
    AssertionError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


class _RawGraph(TypedDict):
    """A graph as the package's reader of tables returns it; of a binary one, edges and features may be mapped."""

    num_nodes: int
    edge_index: npt.NDArray[Any]
    node_feat: npt.NDArray[Any] | None
    edge_feat: NotRequired[npt.NDArray[Any] | None]


def read(config: OgbGraph, scratch: Path | None = None, runner: Runner | None = None) -> GraphDraft:
    """Read a data set from its raw files, which are downloaded once; no pickled cache is opened.

    scratch   a folder for large arrays that are compressed
    runner    puts mapped edges into buckets by tasks
    """
    info, folder = _info(config.dataset), _folder(config)
    _obtain(folder, info, config.dataset)
    graph, labels = _binary(folder, scratch) if info["binary"] == "True" else _text(folder, info)
    num_nodes = int(graph["num_nodes"])
    if labels.shape[0] != num_nodes:
        raise GraphError(_damage(folder, f"it names {num_nodes:,} nodes and has {labels.shape[0]:,} labels"))
    notes = []
    if graph.get("edge_feat") is not None:
        notes.append("the edges' features are not used")
    if not (usable := labels.shape[1] == 1 or is_indicator(labels)):
        notes.append(f"{labels.shape[1]} labels per node are not used: some are not 0 or 1")
    return GraphDraft(
        name=config.dataset,
        origin=f"{config.dataset} in {folder}",
        num_nodes=num_nodes,
        edges=edges_of_arrays(graph["edge_index"], [], runner),
        features=graph["node_feat"],
        labels=(labels[:, 0] if labels.shape[1] == 1 else labels) if usable else None,
        splits={"official": _split(folder, info["split"], num_nodes)},
        notes=notes,
    )


def size(config: OgbGraph) -> SourceSize:
    """From the heads of the raw files, which are downloaded once; unknown where they are damaged: `read` explains."""
    info, folder = _info(config.dataset), _folder(config)
    if not folder.exists():
        _download(folder, info, config.dataset)
    refuse_special(folder)
    with contextlib.suppress(GraphError, *_DAMAGE):
        if info["binary"] == "True":
            return binary_size(folder / "raw")
        return text_size(folder / "raw", info["add_inverse_edge"] == "True")
    return SourceSize()


def _folder(config: OgbGraph) -> Path:
    return config.path / config.dataset.replace("-", "_")


def _info(dataset: str) -> dict[str, str]:
    """The package's entry for the data set; GraphError if it has several kinds of nodes."""
    table = Path(_ogb("ogb").__file__).parent / "nodeproppred" / "master.csv"
    master = _table(table, index_col=0, keep_default_na=False, dtype=str)
    if dataset not in master:
        close = difflib.get_close_matches(dataset, master.columns, n=2, cutoff=0.5) or list(master.columns)
        raise GraphError(
            f"graph.dataset: ogb has no node-property data set {quoted(dataset)}; did you mean {' or '.join(close)}?"
        )
    info = {str(key): str(value) for key, value in master[dataset].items()}
    if info["is hetero"] == "True":
        raise GraphError(
            f"{dataset} has several kinds of nodes, expected one kind; choose another data set, "
            "or export one kind of its nodes as tables"
        )
    return info


def _ogb(module: str) -> Any:
    """Import a module of ogb without the thread in which it asks the network for its newest version."""
    need_package("ogb", "ogb", "graph.source=ogb")
    modules: dict[str, Any] = sys.modules
    before = {"outdated": modules["outdated"]} if "outdated" in modules else {}
    modules["outdated"] = None  # an import of it fails, which ogb takes as no check
    try:
        return import_module(module)
    finally:
        del modules["outdated"]
        modules.update(before)


def _table(path: Path, **options: Any) -> Any:
    """A CSV file as a table of pandas, which ogb brings."""
    from pandas import read_csv

    return read_csv(path, **options)


def _obtain(folder: Path, info: dict[str, str], dataset: str) -> None:
    """Download the raw files if there are none; refuse another release, which the package would ask about."""
    if not folder.exists():
        _download(folder, info, dataset)
    release = f"RELEASE_v{info['version']}.txt"
    if not (folder / release).exists():
        found = ", ".join(sorted(path.name for path in folder.glob("RELEASE*"))) or "none"
        raise GraphError(
            f"{folder} is another release of {dataset}: expected {release}, got {found}; "
            "delete the folder to download it again"
        )
    refuse_special(folder)
    with _reading(folder):
        for path in sorted(folder.glob("*/**/*.csv.gz")):
            _refuse_large(path, _COUNTS if path.name.startswith("num-") else available_memory() // _BYTES_OF_VALUES)
    for needed in ("data.npz", "node-label.npz") if info["binary"] == "True" else ("edge.csv.gz",):
        if not (folder / "raw" / needed).exists():
            raise GraphError(_damage(folder, f"no {needed} in raw"))


def _refuse_large(path: Path, most: int) -> None:
    """Refuse a table that unpacks to more: the package reads all of it at once."""
    size = 0
    with gzip.open(path) as file:
        while size <= most and (block := file.read(1 << 20)):
            size += len(block)
    if size > most:
        raise ValueError(f"{path.name} unpacks to more than the {format_bytes(most)} of text that it may have")


def _download(folder: Path, info: dict[str, str], dataset: str) -> None:
    archive, url = folder.with_name(f"{folder.name}.zip"), info["url"]
    try:
        with (
            publish_file(archive) as temporary,
            _downloading(folder, url, dataset),
            urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer,  # noqa: S310  (of the package, no user's)
            temporary.open("wb") as file,
        ):
            shutil.copyfileobj(answer, file, 1 << 22)
        with publish_folder(folder) as out, _downloading(folder, url, dataset), zipfile.ZipFile(archive) as members:
            _refuse_bomb(members, out)
            members.extractall(out)  # which lets no name lead out of the folder
            for path in sorted((out / info["download_name"]).iterdir()):
                path.rename(out / path.name)
            (out / info["download_name"]).rmdir()
    finally:
        archive.unlink(missing_ok=True)


def _downloading(folder: Path, url: str, dataset: str) -> contextlib.AbstractContextManager[None]:
    cure = f"unpack it there yourself so that {folder / 'raw'} exists, or set graph.path"
    return explained(
        lambda error: f"{dataset} is not in {folder} and cannot be downloaded from {url} ({error}); {cure}",
        OSError, zipfile.BadZipFile, zlib.error,
    )  # fmt: skip


def _refuse_bomb(members: zipfile.ZipFile, folder: Path) -> None:
    if (size := sum(member.file_size for member in members.infolist())) > (free := free_disk(folder)):
        raise GraphError(
            f"{shortened(members.filename)} unpacks to {format_bytes(size)} and {format_bytes(free)} of disk are free; "
            "set graph.path to a folder on a larger disk"
        )


def _text(folder: Path, info: dict[str, str]) -> tuple[_RawGraph, npt.NDArray[Any]]:
    """The graph and the labels [N, tasks], by the package's reader of tables."""
    reader = _ogb("ogb.io.read_graph_raw")
    raw, inverse = str(folder / "raw"), info["add_inverse_edge"] == "True"
    with _reading(folder), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        graph = reader.read_csv_graph_raw(raw, add_inverse_edge=inverse)[0]
        labels = _table(folder / "raw" / "node-label.csv.gz", header=None).to_numpy()
    return graph, labels.reshape(labels.shape[0], -1)


def _binary(folder: Path, scratch: Path | None) -> tuple[_RawGraph, npt.NDArray[Any]]:
    """The graph and the labels [N, tasks] of a data set in numpy's files; the package would load all arrays."""
    raw, cure = folder / "raw", f"delete {folder} to download it again"
    with _reading(folder):
        arrays = read_arrays(raw / "data.npz", MAPPED, scratch, (*MAPPED, "num_nodes_list", "num_edges_list"), cure)
        labels = read_arrays(raw / "node-label.npz", (), None, cure=cure)["node_label"]
        (num_nodes,), edges = arrays["num_nodes_list"].tolist(), arrays["edge_index"]
        if [*edges.shape] != [2, *arrays["num_edges_list"].tolist()]:
            raise ValueError(f"edge_index has shape {edges.shape}, num_edges_list says {arrays['num_edges_list']}")
        has_edge_features = "edge_feat" in read_heads(raw / "data.npz")
    graph: _RawGraph = {
        "num_nodes": num_nodes,
        "edge_index": edges,
        "node_feat": arrays.get("node_feat"),
        "edge_feat": np.empty(0) if has_edge_features else None,
    }
    return graph, labels.reshape(labels.shape[0], -1)


def _split(folder: Path, kind: str, num_nodes: int) -> npt.NDArray[np.int8]:
    files = {part: folder / "split" / kind / f"{name}.csv.gz" for part, name in _PARTS.items()}
    with _reading(folder):
        rows = {part: _table(path, header=None).to_numpy()[:, 0] for part, path in files.items()}
    return split_from_rows(rows, num_nodes, str(folder))


def _damage(folder: Path, reason: str) -> str:
    return f"{folder} is damaged or not complete: {reason}; delete it to download it again"


def _reading(folder: Path) -> contextlib.AbstractContextManager[None]:
    return explained(lambda error: _damage(folder, error), *_DAMAGE)
