"""Which embeddings a user means: of a run folder, of a run on an object store, or of a registry's current version."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gscl_scale.errors import FolderError
from gscl_scale.files import map_array, read_json
from gscl_scale.registry import Registry
from gscl_scale.storage import cache_of, is_remote, kept_files, small_files
from gscl_scale.vectors import FILE

_OF_GRAPH = ("graph/manifest.json", "graph/labels.arrow")


@dataclass(frozen=True)
class Place:
    """Embeddings on this machine.

    told         as the user would name them
    embeddings   their folder
    index        the folder for an index of them
    graph        the folder of their graph; None where nothing is known of it
    """

    told: str
    embeddings: Path
    index: Path
    graph: Path | None

    def classes(self) -> tuple[npt.NDArray[np.int64], list[str]] | None:
        """(class of each node, -1 where unknown; names of the classes), where the graph has labels."""
        if self.graph is None or not (self.graph / "labels.arrow").exists():
            return None
        return map_array(self.graph / "labels.arrow", "label"), read_json(self.graph / "manifest.json")["classes"]


def place_of(where: str) -> Place:
    """The embeddings of a run folder, of a folder that embed has written, of a URL, or of a registry."""
    if not is_remote(where) and (Path(where) / FILE).exists():
        return Place(where, Path(where), Path(where) / "index", None)
    registry = Registry(where)
    if registry.ledger.numbers():
        return _of_registry(where, registry)
    if not is_remote(where):
        return _of_run(Path(where), where)
    with small_files(where) as folder:
        part = _part_of(folder, where)
    files = [f"{part}embeddings/{FILE}", f"{part}embeddings/manifest.json", f"{part}run.json", "run.json", *_OF_GRAPH]
    return _of_run(kept_files(where, files), where, index=cache_of(f"{where}/index") / part)


def _of_run(folder: Path, where: str, index: Path | None = None) -> Place:
    part = _part_of(folder, where)
    embeddings = folder / part / "embeddings"
    graphs = [place for place in (folder / "graph", folder.parent / "graph") if (place / "manifest.json").exists()]
    told = f"{where.rstrip('/')}/{part}".rstrip("/")
    return Place(told, embeddings, index or embeddings / "index", graphs[0] if graphs else None)


def _of_registry(where: str, registry: Registry) -> Place:
    """A version never changes: its index is kept among the copies on this machine."""
    folder = registry.current(lambda name: name.startswith("embeddings/") or name in _OF_GRAPH)
    told = f"version {folder.name} of {where}"
    return Place(told, folder / "embeddings", cache_of(f"{where}/index") / folder.name, folder / "graph")


def _part_of(folder: Path, where: str) -> str:
    """Of a run with repeats the folder of its first one, else nothing."""
    if not (folder / "run.json").exists():
        raise FolderError(f"{where} holds no run; give the run folder, or the folder of a registry")
    train = read_json(folder / "run.json").get("config", {}).get("train", {})
    return f"seed-{train['seed']}/" if train.get("repeats", 1) > 1 else ""
