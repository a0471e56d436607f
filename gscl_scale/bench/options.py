"""The options of each bench: the fields that its class declares are those of its command, in this order."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gscl_scale.bench.harness import Bench, to_draw
from gscl_scale.config.config import Config

_RESULTS = Path("bench-results")

Turns = Annotated[int, typer.Option(min=1, help="How often everything is measured; medians are reported.")]
Out = Annotated[Path, typer.Option(help="Folder for the results, a .json and a .md file, and for scratch.")]
Keep = Annotated[Path | None, typer.Option(help="Folder for drawn inputs: use those that exist, keep new ones.")]
Graphs = Annotated[
    list[Path] | None, typer.Option(help="A graph folder to measure as well, or instead; repeat the option.")
]


class Device(StrEnum):
    """Where a step runs."""

    CPU = "cpu"
    CUDA = "cuda"


@dataclass(kw_only=True)
class Rings(Bench):
    """Compare our engines with other tools at listing hop rings.

    The tools are igraph, scipy, networkit and torch-geometric, on the same cores. A second section measures whether
    rings.engine auto chooses the faster engine."""

    config: Config
    hops: Annotated[
        list[int] | None,
        typer.Option(min=1, max=8, help="Depths of our engines; repeat the option. Default: rings.hops."),
    ] = None
    peer_hops: Annotated[
        list[int] | None,
        typer.Option(min=1, max=8, help="Depths of the other tools; repeat the option. Default: as --hops."),
    ] = None
    cores: Annotated[int, typer.Option(min=0, help="Cores to use; 0: all.")] = 0
    seconds: Annotated[float, typer.Option(min=0.1, help="Time of each measurement that is extrapolated.")] = 5.0
    turns: Turns = 3
    only: Annotated[
        str | None,
        typer.Option(help="Measure one section: tools, or large-balls (graphs whose balls hold all nodes)."),
    ] = None
    out: Out = _RESULTS

    @property
    def our_depths(self) -> list[int]:
        """The depths of our engines."""
        return self.hops or [self.config.rings.hops]

    @property
    def peer_depths(self) -> list[int]:
        """The depths of the other tools."""
        return self.peer_hops or self.our_depths


@dataclass(kw_only=True)
class Changes(Bench):
    """Compare sampling since an earlier run with sampling anew.

    Both sample a graph after some of its edges changed."""

    config: Config
    share: Annotated[
        list[float] | None, typer.Option(help="Share of the edges that change; repeat the option. Default 0.001.")
    ] = None
    turns: Turns = 3
    out: Out = _RESULTS

    @property
    def shares(self) -> list[float]:
        """Shares of the edges that change."""
        return self.share or [0.001]


@dataclass(kw_only=True)
class Scale(Bench):
    """Measure hop rings of growing graphs: time, memory and disk.

    Extrapolates to papers100M."""

    edges: Annotated[
        list[float] | None,
        typer.Option(help="Undirected edges of a graph to draw; repeat the option. Default: 1e6, 3e6, 1e7."),
    ] = None
    graph: Graphs = None
    workers: Annotated[
        list[int] | None, typer.Option(help="Workers to use; repeat the option. Default: 1 and one per core.")
    ] = None
    turns: Turns = 1
    out: Out = _RESULTS
    keep: Keep = None

    @property
    def sizes(self) -> list[int]:
        """Edges of the graphs to draw."""
        return to_draw(self.edges, self.graph, [1e6, 3e6, 1e7])

    @property
    def worker_numbers(self) -> list[int]:
        """Numbers of workers to measure."""
        return self.workers or sorted({1, len(self.core_ids)})


@dataclass(kw_only=True)
class Train(Bench):
    """Compare a training step with the same one in torch-geometric.

    Measures as well what each of our ideas gives."""

    config: Config
    steps: Annotated[int, typer.Option(min=1, help="Steps that are timed, after a first one.")] = 5
    ideas: Annotated[bool, typer.Option(help="Measure our step without each of its ideas as well.")] = True
    device: Annotated[
        Device,
        typer.Option(  # typer 0.27.2 would name it after the metavar
            "--device",
            metavar="DEVICE",
            help="cpu, or cuda: our step alone, with kernels, waits and share of the roofline.",
        ),
    ] = Device.CPU
    turns: Turns = 2
    out: Out = _RESULTS


@dataclass(kw_only=True)
class Embed(Bench):
    """Measure embedding all nodes as graphs grow.

    Time, memory and disk, layer by layer."""

    edges: Annotated[
        list[float] | None,
        typer.Option(help="Undirected edges of a graph to draw; repeat the option. Default: 1e6, 1e7."),
    ] = None
    graph: Graphs = None
    encoder: Annotated[list[str] | None, typer.Option(help="gcn, sage or gat; repeat the option. Default: gcn.")] = None
    layers: Annotated[int, typer.Option(min=1, help="Layers of the encoder.")] = 2
    width: Annotated[int, typer.Option(min=1, help="Width of each layer.")] = 128
    memory_gb: Annotated[float, typer.Option(min=0.1, help="As runtime.embed_memory_gb.")] = 4.0
    turns: Turns = 1
    out: Out = _RESULTS
    keep: Keep = None

    @property
    def sizes(self) -> list[int]:
        """Edges of the graphs to draw."""
        return to_draw(self.edges, self.graph, [1e6, 1e7])

    @property
    def encoders(self) -> list[str]:
        """The encoders to measure."""
        return self.encoder or ["gcn"]


@dataclass(kw_only=True)
class Memory(Bench):
    """Measure the memory of a training process, early and late.

    After some steps, and after ten times as many anchors and rounds."""

    config: Config
    graph: Annotated[Path | None, typer.Option(help="A graph folder in place of the graph of the config.")] = None
    steps: Annotated[int, typer.Option(min=2, help="Steps of the shorter training; the longer has ten times.")] = 10
    out: Out = _RESULTS
    keep: Annotated[
        Path | None, typer.Option(help="Folder for graph and samples: use those that exist, keep new ones.")
    ] = None


@dataclass(kw_only=True)
class Neighbors(Bench):
    """Compare the exact search for nearest nodes with the index.

    Time and memory of both, recall and file of the index."""

    rows: Annotated[
        list[float] | None, typer.Option(help="Embeddings to draw; repeat the option. Default: 1e5, 1e6.")
    ] = None
    embeddings: Annotated[
        list[Path] | None, typer.Option(help="An embeddings folder to measure as well, or instead; repeat the option.")
    ] = None
    width: Annotated[int, typer.Option(min=1, help="Width of drawn embeddings.")] = 128
    out: Out = _RESULTS
    keep: Keep = None

    @property
    def sizes(self) -> list[int]:
        """Numbers of embeddings to draw."""
        return to_draw(self.rows, self.embeddings, [1e5, 1e6])


@dataclass(kw_only=True)
class Report(Bench):
    """Open the page of a run in a headless Chromium and time it.

    How fast it opens and reacts, and how large it is."""

    runs: Annotated[list[Path], typer.Argument(metavar="{run}", help="Folders of finished runs.")]
    turns: Annotated[int, typer.Option(min=1, help="How often each page is opened; medians are reported.")] = 5
    out: Out = _RESULTS


@dataclass(kw_only=True)
class Start(Bench):
    """Measure how long commands take to answer.

    Compilation of kernels as well, and a run of the digits beside other programs."""

    spinning: Annotated[bool, typer.Option("--spinning", help="Run the digits with threads that spin as well.")] = False
    turns: Turns = 3
    out: Out = _RESULTS


@dataclass(kw_only=True)
class Plan(Bench):
    """Compare what plan says with the stages of three graphs.

    Peak memory and core time of each stage, in a process of its own."""

    scale: Annotated[float, typer.Option(min=0.001, help="Nodes of the graphs, as a multiple of the usual ones.")] = 1.0
    out: Out = _RESULTS


BENCHES: tuple[type[Bench], ...] = (Rings, Changes, Scale, Train, Embed, Memory, Neighbors, Report, Start, Plan)
