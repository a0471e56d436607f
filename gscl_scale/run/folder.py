"""The run folder: the place of each result; and the runs whose names are like that of one that is not there."""

import difflib
from dataclasses import dataclass
from pathlib import Path

from gscl_scale.errors import FolderError


class _Inside:
    """A file or folder of a run, by its name there."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, run: "Run", owner: type) -> Path:
        return run.folder / self._name


@dataclass(frozen=True)
class Run:
    """A run folder; repeats of a run share its graph, trials of a search its samples too."""

    folder: Path
    graph: Path
    sampled: Path | None = None

    checkpoints = _Inside("checkpoints")
    embeddings = _Inside("embeddings")
    start = _Inside("start.pt")  # first weights of the training, if they are not drawn by its seed
    rotation = _Inside("rotation.npy")  # from the embeddings into the space of earlier ones, if there is one
    config = _Inside("config.yaml")  # settings that a user may edit and give as --config, where a file was named
    metrics = _Inside("metrics.json")
    report = _Inside("report.html")
    map = _Inside("map")  # positions of the nodes on the map of the report
    log = _Inside("log.jsonl")  # one event per line

    @classmethod
    def at(cls, folder: Path) -> "Run":
        """The run in a folder, with a graph of its own."""
        return cls(folder, folder / "graph")

    @classmethod
    def found(cls, folder: Path) -> "Run":
        """The finished run in a folder, which may be a repeat of the run above it."""
        if not (folder / "run.json").exists():
            raise no_run(str(folder), "name the folder of a finished run")
        above = folder.absolute().parent / "graph"
        return cls(folder, above if not (folder / "graph").exists() and above.exists() else folder / "graph")

    def repeat(self, seed: int) -> "Run":
        """The repeat of this run with another seed."""
        return Run(self.folder / f"seed-{seed}", self.graph)

    def repeat_like(self, other: "Run") -> "Run":
        """The repeat of this run with the seed of the other run, or this run if the other is no repeat."""
        if other.graph.parent == other.folder:
            return self
        return Run(self.folder / other.folder.name, self.graph)

    @property
    def samples(self) -> Path:
        """Ring samples."""
        return self.sampled or self.folder / "samples"


def runs_in(folder: Path) -> list[Path]:
    """The runs in a folder."""
    return [path.parent for path in sorted(folder.glob("*/run.json"))] if folder.is_dir() else []


def similar_runs(where: str) -> list[str]:
    """The runs beside a place or in `runs` that have a similar name, or the same one."""
    path = Path(where)
    runs = {str(one): one.name for one in [*runs_in(path.parent), *runs_in(Path("runs"))]}
    close = difflib.get_close_matches(path.name, runs.values(), n=3)
    return [one for one, name in runs.items() if name in close]


def no_run(where: str, cure: str) -> FolderError:
    """A place holds no run: the error names those of a similar name, or else the cure."""
    near = " or ".join(similar_runs(where))
    return FolderError(f"{where} holds no run; {f'did you mean {near}?' if near else cure}")


_OF_AN_ENCODER = ("run.json", "rotation.npy", "start.pt", "samples/manifest.json")


def encoder_needs(name: str) -> bool:
    """Whether an encoder needs a file of a run; the rest may be hundreds of times as large."""
    return name.startswith(("graph/", "checkpoints/")) or name in _OF_AN_ENCODER
