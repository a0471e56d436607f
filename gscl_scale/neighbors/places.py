"""Locate the embeddings to search: of a finished run, or in a folder that embed has written."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from typing_extensions import TypedDict

from gscl_scale.embed.store import FILE
from gscl_scale.errors import FolderError
from gscl_scale.io.arrow import map_array
from gscl_scale.io.json import read_json
from gscl_scale.registry.locate import find_run, place_for

_NEEDED = (f"embeddings/{FILE}", "embeddings/manifest.json", "graph/manifest.json", "graph/labels.arrow")


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

    def classes(self, rows: int) -> tuple[npt.NDArray[np.int64], list[str]] | None:
        """(class of each of the nodes, -1 where unknown; names of the classes); None without labels."""
        if self.graph is None or not (self.graph / "labels.arrow").exists():
            return None
        labels = map_array(self.graph / "labels.arrow", "label", "int64")
        names = read_json(self.graph / "manifest.json", _Classes)["classes"]
        if labels.shape != (rows,) or labels.max() >= len(names):
            raise FolderError(
                f"{self.graph / 'labels.arrow'} is damaged: expected {rows:,} labels of {len(names):,} classes; "
                f"delete {self.graph} and ingest the graph again"
            )
        return labels, names


def find_embeddings(where: str) -> EmbeddingSource:
    """The embeddings of a run or a folder; of a remote run only what a search needs is copied here."""
    if (Path(where) / FILE).exists():
        return EmbeddingSource(where, Path(where), Path(where) / "index")
    found = find_run(where, "neighbors", _NEEDED.__contains__)
    return EmbeddingSource(found.name, found.run.embeddings, place_for(found, "embeddings/index"), found.run.graph)
