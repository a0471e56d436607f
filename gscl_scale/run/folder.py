"""The run folder: where everything lives."""

from dataclasses import dataclass
from pathlib import Path

from gscl_scale.errors import FolderError


@dataclass(frozen=True)
class Run:
    """A run folder; repeats of a run share its graph, trials of a search its samples too."""

    folder: Path
    graph: Path
    sampled: Path | None = None

    @classmethod
    def at(cls, folder: Path) -> "Run":
        """The run in a folder, with a graph of its own."""
        return cls(folder, folder / "graph")

    @classmethod
    def found(cls, folder: Path) -> "Run":
        """The finished run in a folder, which may be a repeat of the run above it."""
        if not (folder / "run.json").exists():
            raise FolderError(f"{folder} holds no run; name the folder of a finished run")
        above = folder.absolute().parent / "graph"
        return cls(folder, above if not (folder / "graph").exists() and above.exists() else folder / "graph")

    def repeat(self, seed: int) -> "Run":
        """The repeat of this run with another seed."""
        return Run(self.folder / f"seed-{seed}", self.graph)

    def repeat_like(self, other: "Run") -> "Run":
        """This run, or that repeat of it which the other one is of its own."""
        if other.graph.parent == other.folder:
            return self
        return Run(self.folder / other.folder.name, self.graph)

    @property
    def samples(self) -> Path:
        """Ring samples."""
        return self.sampled or self.folder / "samples"

    @property
    def checkpoints(self) -> Path:
        """Checkpoints of the training."""
        return self.folder / "checkpoints"

    @property
    def embeddings(self) -> Path:
        """Embeddings of all nodes."""
        return self.folder / "embeddings"

    @property
    def start(self) -> Path:
        """Weights that the training begins with; where there are none, drawn by its seed."""
        return self.folder / "start.pt"

    @property
    def rotation(self) -> Path:
        """The rotation of the embeddings into the space of earlier ones, if they have one."""
        return self.folder / "rotation.npy"

    @property
    def metrics(self) -> Path:
        """Figures."""
        return self.folder / "metrics.json"

    @property
    def report(self) -> Path:
        """The page to look at."""
        return self.folder / "report.html"

    @property
    def map(self) -> Path:
        """Places of the nodes on the map of the page."""
        return self.folder / "map"

    @property
    def log(self) -> Path:
        """One object a line: everything that happened."""
        return self.folder / "log.jsonl"
