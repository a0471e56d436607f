"""The map of the embeddings: its nodes, their places in the plane, and the nearest nodes of each by cosine."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from typing_extensions import TypedDict

from gscl_scale import seeding
from gscl_scale.errors import FolderError
from gscl_scale.evaluate.search import nearest_nodes
from gscl_scale.evaluate.vectors import unit
from gscl_scale.io.arrow import arrow_of, as_rows, map_array, write_arrow
from gscl_scale.io.atomic import publish_folder
from gscl_scale.io.checksum import fingerprint_of, sha256_of
from gscl_scale.io.json import read_json, write_json
from gscl_scale.report.layout import TURNS, lay_out
from gscl_scale.runtime.console import Console

MOST_NODES = 100_000
NEAREST = 10  # listed for each node
_TO_LAY_OUT = (
    (20_000, 90),
    (MOST_NODES, 30),
)  # (nodes, nearest ones of each that t-SNE reads) for maps up to that size
_VERSION = 1


class _Manifest(TypedDict):
    fingerprint: str
    sha256: str


@dataclass(frozen=True)
class NodeMap:
    """M nodes of a graph of N, in a plane.

    nodes [M]          ascending
    places [M, 2]      in the unit square
    nearest [M, K]     the nearest of the M nodes by cosine of their embeddings, as positions in `nodes`
    cosines [M, K]     their cosines
    """

    nodes: npt.NDArray[np.int64]
    places: npt.NDArray[np.float32]
    nearest: npt.NDArray[np.int32]
    cosines: npt.NDArray[np.float32]


def draw_map(
    vectors: npt.NDArray[np.float32], seed: int, most: int = MOST_NODES, console: Console | None = None
) -> NodeMap:
    """The map of vectors [N, d]: of all nodes, or of a sample of `most` that is drawn with the seed."""
    nodes = seeding.sample(np.arange(vectors.shape[0], dtype=np.int64), most, "map nodes", seed)
    rows = unit(np.asarray(vectors[nodes], np.float32))
    count = next((count for size, count in _TO_LAY_OUT if nodes.size <= size), NEAREST)
    with (console or Console(quiet=True)).progress("map", TURNS, "turns") as advance:
        everyone = np.arange(nodes.size, dtype=np.int64)
        nearest, cosines = nearest_nodes(rows, everyone, everyone, min(count, nodes.size - 1))
        places = lay_out(rows, nearest, cosines, seed, advance)
    return NodeMap(nodes, places, nearest[:, :NEAREST].astype(np.int32), cosines[:, :NEAREST])


def load_map(
    folder: Path, vectors: npt.NDArray[np.float32], made_from: str, seed: int, console: Console | None = None
) -> NodeMap:
    """The map that is stored in a folder; drawn and stored first if it is missing, damaged or of other vectors."""
    fingerprint = fingerprint_of([_VERSION, made_from, seed, MOST_NODES])
    try:
        return _load(folder, fingerprint, vectors.shape[0])
    except FolderError:
        _store(folder, draw_map(vectors, seed, console=console), fingerprint)
    return _load(folder, fingerprint, vectors.shape[0])


def _load(folder: Path, fingerprint: str, num_nodes: int) -> NodeMap:
    manifest, path = read_json(folder / "manifest.json", _Manifest), folder / "nodes.arrow"
    if manifest["fingerprint"] != fingerprint or manifest["sha256"] != sha256_of(path):
        raise FolderError(f"{folder} is a map of something else")
    names = {"node": "int64", "place": "float", "nearest": "int32", "cosine": "float"}
    drawn = NodeMap(*(map_array(path, name, kind) for name, kind in names.items()))
    count, each = drawn.nodes.size, drawn.nearest.shape[1:]
    fits = drawn.places.shape == (count, 2) and drawn.nearest.shape == drawn.cosines.shape == (count, *each)
    known = fits and len(each) == 1 and drawn.nodes.min() >= 0 and drawn.nodes.max() < num_nodes
    if not (known and (drawn.nearest >= -1).all() and (drawn.nearest < count).all()):
        raise FolderError(f"{path} is no map of {num_nodes:,} nodes")
    return drawn


def _store(folder: Path, drawn: NodeMap, fingerprint: str) -> None:
    with publish_folder(folder) as temporary:
        columns = {"place": drawn.places, "nearest": drawn.nearest, "cosine": drawn.cosines}
        rows = {name: as_rows(values) for name, values in columns.items()}
        write_arrow(temporary / "nodes.arrow", {"node": arrow_of(drawn.nodes), **rows})
        manifest = {"fingerprint": fingerprint, "sha256": sha256_of(temporary / "nodes.arrow")}
        write_json(temporary / "manifest.json", manifest)
