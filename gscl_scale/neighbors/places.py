"""Locate the embeddings to search: of a finished run, or in a folder that embed has written."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import TypedDict

from gscl_scale.embed.store import FILE
from gscl_scale.errors import FolderError
from gscl_scale.graph.label_sets import LabelSets
from gscl_scale.io.arrow import map_array
from gscl_scale.io.json import read_json
from gscl_scale.registry.locate import find_run, place_for

_LABELS, _LABEL_SETS = "labels.arrow", ("label_indptr.arrow", "label_indices.arrow")
_OF_GRAPH = ("manifest.json", _LABELS, *_LABEL_SETS)
_ROWS = f"embeddings/{FILE}"  # a file, or a folder of parts
_NEEDED = ("embeddings/manifest.json", *(f"graph/{name}" for name in _OF_GRAPH))


class _Options(TypedDict, total=False):
    id_column: str


class _Made(TypedDict, total=False):
    options: _Options


ClassOf = Callable[[int], str | None]


class _Classes(TypedDict):
    classes: list[str]


@dataclass(frozen=True)
class EmbeddingSource:
    """Embeddings on this machine.

    name         their name for the user
    embeddings   their folder
    index        the folder for their index
    graph        the folder of their graph; None where it is unknown
    """

    name: str
    embeddings: Path
    index: Path
    graph: Path | None = None

    @property
    def id_column(self) -> str:
        """The column of ids in the node table; "" where it is unknown."""
        if self.graph is None or not (self.graph / "manifest.json").exists():
            return ""
        return read_json(self.graph / "manifest.json", _Made).get("options", {}).get("id_column", "")

    def class_of(self, rows: int) -> ClassOf | None:
        """A function from nodes to the names of their classes or labels; None without labels."""
        if self.graph is None or not any((self.graph / name).exists() for name in (_LABELS, _LABEL_SETS[0])):
            return None
        names = read_json(self.graph / "manifest.json", _Classes)["classes"]
        if (self.graph / _LABELS).exists():
            labels = map_array(self.graph / _LABELS, "label", "int64")
            self._refuse_damaged(_LABELS, labels.shape != (rows,) or labels.max() >= len(names), rows, names)
            return lambda row: names[labels[row]] if labels[row] >= 0 else None
        indptr = map_array(self.graph / _LABEL_SETS[0], "indptr", "int64")
        sets = LabelSets(indptr, map_array(self.graph / _LABEL_SETS[1], "label", "int32"), names)
        self._refuse_damaged(_LABEL_SETS[1], bool(sets.flaw(rows)), rows, names)
        return lambda row: ", ".join(names[label] for label in sets.indices[indptr[row] : indptr[row + 1]]) or None

    def _refuse_damaged(self, name: str, damaged: bool, rows: int, names: list[str]) -> None:
        if damaged and self.graph is not None:
            raise FolderError(
                f"{self.graph / name} is damaged: expected {rows:,} labels of {len(names):,} classes; "
                f"delete {self.graph} and ingest the graph again"
            )


def find_embeddings(where: str) -> EmbeddingSource:
    """The embeddings of a run or a folder; of a remote run only what a search needs is copied here."""
    if (Path(where) / FILE).exists():
        return EmbeddingSource(where, Path(where), Path(where) / "index")
    found = find_run(where, "neighbors", _is_needed)
    return EmbeddingSource(found.name, found.run.embeddings, place_for(found, "embeddings/index"), found.run.graph)


def _is_needed(file: str) -> bool:
    return file in _NEEDED or file == _ROWS or file.startswith(f"{_ROWS}/")
