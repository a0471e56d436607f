"""`gscl-scale bench`: speed and memory beside the best other tools."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from gscl_scale.cli.options import ConfigFile, Settings
from gscl_scale.config.config import Config
from gscl_scale.errors import UserError
from gscl_scale.runtime.console import Console

bench = typer.Typer(help="Speed and memory beside the best other tools.", no_args_is_help=True)


@bench.callback()
def _bench() -> None:
    """Measure speed and memory beside the best other tools, in one run on one machine."""


@bench.command()
def rings(
    config_file: ConfigFile = None,
    settings: Settings = None,
    hops: Annotated[
        list[int] | None,
        typer.Option(min=1, max=8, help="Depths of our engines; repeat the option. Default: rings.hops."),
    ] = None,
    peer_hops: Annotated[
        list[int] | None,
        typer.Option(min=1, max=8, help="Depths of the other tools; repeat the option. Default: as --hops."),
    ] = None,
    cores: Annotated[int, typer.Option(min=0, help="Cores to use; 0: all.")] = 0,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time of each measurement that is extrapolated.")] = 5.0,
    turns: Annotated[int, typer.Option(min=1, help="How often everything is measured; medians are reported.")] = 3,
    only: Annotated[
        str | None,
        typer.Option(help="Measure one section: tools, or large-balls (graphs whose balls hold all nodes)."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for rings.json and rings.md.")] = Path("bench-results"),
) -> None:
    """Hop rings: our engines beside other tools.

    igraph, scipy, networkit and torch-geometric, on the same cores; and whether rings.engine auto chooses well."""
    from gscl_scale.bench.rings import SECTIONS, RingsBench, bench_rings

    if only and only not in SECTIONS:
        raise UserError(f"bench rings: --only {only}: expected {' or '.join(SECTIONS)}; leave it out to measure both")
    config = Config.load(config_file, settings)
    depths = hops or [config.rings.hops]
    given: list[tuple[str, Sequence[Any]]] = [
        ("--config", [config_file] if config_file else []),
        ("--set", settings or []),
        ("--hops", hops or []),
        ("--peer-hops", peer_hops or []),
        ("--cores", [cores] if cores else []),
        ("--seconds", [] if seconds == 5.0 else [seconds]),
        ("--turns", [] if turns == 3 else [turns]),
        ("--only", [only] if only else []),
    ]
    sections = (only,) if only else SECTIONS
    asked = RingsBench(depths, peer_hops or depths, cores, seconds, turns, _command("rings", given), sections)
    print(bench_rings(config, asked, out, Console()))


def _command(name: str, given: Sequence[tuple[str, Sequence[Any]]]) -> str:
    """The command with the options that change what is measured."""
    options = [word for option, values in given for value in values for word in (option, str(value))]
    return shlex.join(["gscl-scale", "bench", name, *options])


@bench.command()
def changes(
    config_file: ConfigFile = None,
    settings: Settings = None,
    share: Annotated[
        list[float] | None, typer.Option(help="Share of the edges that change; repeat the option. Default 0.001.")
    ] = None,
    turns: Annotated[int, typer.Option(min=1, help="How often everything is measured; medians are reported.")] = 3,
    out: Annotated[Path, typer.Option(help="Folder for changes.json and changes.md.")] = Path("bench-results"),
) -> None:
    """Samples since an earlier run against samples from nothing.

    After some edges of the graph changed."""
    from gscl_scale.bench.changes import bench_changes

    given: list[tuple[str, Sequence[Any]]] = [
        ("--config", [config_file] if config_file else []),
        ("--set", settings or []),
        ("--share", share or []),
        ("--turns", [] if turns == 3 else [turns]),
    ]
    shares = share or [0.001]
    config = Config.load(config_file, settings)
    print(bench_changes(config, shares, turns, _command("changes", given), out, Console()))


@bench.command()
def scale(
    edges: Annotated[
        list[float] | None,
        typer.Option(help="Undirected edges of a graph to draw; repeat the option. Default: 1e6, 3e6, 1e7."),
    ] = None,
    graph: Annotated[
        list[Path] | None, typer.Option(help="A graph folder to measure as well, or instead; repeat the option.")
    ] = None,
    workers: Annotated[
        list[int] | None, typer.Option(help="Workers to use; repeat the option. Default: 1 and one per core.")
    ] = None,
    turns: Annotated[int, typer.Option(min=1, help="How often everything is measured; medians are reported.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for scale.json and scale.md.")] = Path("bench-results"),
    keep: Annotated[Path | None, typer.Option(help="Keep the drawn graphs here, and use those that are there.")] = None,
) -> None:
    """Hop rings of growing graphs: time, memory and disk.

    And what papers100M would take."""
    from gscl_scale.bench.scale import ScaleBench, bench_scale
    from gscl_scale.machine import usable_cores

    sizes = edges if edges is not None else [] if graph else [1e6, 3e6, 1e7]
    numbers = workers or sorted({1, len(usable_cores())})
    given: list[tuple[str, Sequence[Any]]] = [
        ("--edges", [f"{size:g}" for size in edges or []]),
        ("--graph", graph or []),
        ("--workers", workers or []),
        ("--turns", [] if turns == 1 else [turns]),
    ]
    command = _command("scale", given)
    asked = ScaleBench([int(size) for size in sizes], graph or [], numbers, turns, command)
    print(bench_scale(asked, out, keep, Console()))


@bench.command()
def train(
    config_file: ConfigFile = None,
    settings: Settings = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps that are timed, after a first one.")] = 5,
    ideas: Annotated[bool, typer.Option(help="Measure our step without each of its ideas as well.")] = True,
    turns: Annotated[int, typer.Option(min=1, help="How often everything is measured; medians are reported.")] = 2,
    out: Annotated[Path, typer.Option(help="Folder for train.json and train.md.")] = Path("bench-results"),
) -> None:
    """A training step beside the same step in torch-geometric.

    And what each idea gives."""
    from gscl_scale.bench.train import TrainBench, bench_train

    given: list[tuple[str, Sequence[Any]]] = [
        ("--config", [config_file] if config_file else []),
        ("--set", settings or []),
        ("--steps", [] if steps == 5 else [steps]),
        ("--turns", [] if turns == 2 else [turns]),
    ]
    asked = TrainBench(steps, turns, ideas, _command("train", given) + ("" if ideas else " --no-ideas"))
    print(bench_train(Config.load(config_file, settings), asked, out, Console()))


@bench.command()
def embed(
    edges: Annotated[
        list[float] | None,
        typer.Option(help="Undirected edges of a graph to draw; repeat the option. Default: 1e6, 1e7."),
    ] = None,
    graph: Annotated[
        list[Path] | None, typer.Option(help="A graph folder to measure as well, or instead; repeat the option.")
    ] = None,
    encoder: Annotated[
        list[str] | None, typer.Option(help="gcn, sage or gat; repeat the option. Default: gcn.")
    ] = None,
    layers: Annotated[int, typer.Option(min=1, help="Layers of the encoder.")] = 2,
    width: Annotated[int, typer.Option(min=1, help="Width of each layer.")] = 128,
    memory_gb: Annotated[float, typer.Option(min=0.1, help="As runtime.embed_memory_gb.")] = 4.0,
    turns: Annotated[int, typer.Option(min=1, help="How often everything is measured; medians are reported.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for embed.json and embed.md, and for scratch.")] = Path(
        "bench-results"
    ),
    keep: Annotated[Path | None, typer.Option(help="Keep the drawn graphs here, and use those that are there.")] = None,
) -> None:
    """Embeddings of all nodes, layer by layer, as graphs grow.

    Time, memory and disk."""
    from gscl_scale.bench.embed import EmbedBench, bench_embed

    sizes = edges if edges is not None else [] if graph else [1e6, 1e7]
    given: list[tuple[str, Sequence[Any]]] = [
        ("--edges", [f"{size:g}" for size in edges or []]),
        ("--graph", graph or []),
        ("--encoder", encoder or []),
        ("--layers", [] if layers == 2 else [layers]),
        ("--width", [] if width == 128 else [width]),
        ("--memory-gb", [] if memory_gb == 4.0 else [memory_gb]),
        ("--turns", [] if turns == 1 else [turns]),
    ]
    asked = EmbedBench(
        [int(size) for size in sizes], graph or [], encoder or ["gcn"], layers, width, memory_gb, turns,
        _command("embed", given),
    )  # fmt: skip
    print(bench_embed(asked, out, keep, Console()))


@bench.command()
def memory(
    config_file: ConfigFile = None,
    settings: Settings = None,
    graph: Annotated[Path | None, typer.Option(help="A graph folder in place of the graph of the config.")] = None,
    steps: Annotated[int, typer.Option(min=2, help="Steps of the shorter training; the longer has ten times.")] = 10,
    out: Annotated[Path, typer.Option(help="Folder for memory.json and memory.md, and for scratch.")] = Path(
        "bench-results"
    ),
    keep: Annotated[
        Path | None, typer.Option(help="Keep graph and samples here, and use those that are there.")
    ] = None,
) -> None:
    """Memory of a training process, early and late.

    After some steps, and after ten times as many anchors and rounds."""
    from gscl_scale.bench.memory import MemoryBench, bench_memory

    given: list[tuple[str, Sequence[Any]]] = [
        ("--config", [config_file] if config_file else []),
        ("--set", settings or []),
        ("--graph", [graph] if graph else []),
        ("--steps", [] if steps == 10 else [steps]),
    ]
    asked = MemoryBench(steps, graph, _command("memory", given))
    print(bench_memory(Config.load(config_file, settings), asked, out, keep, Console()))


@bench.command()
def neighbors(
    rows: Annotated[
        list[float] | None, typer.Option(help="Embeddings to draw; repeat the option. Default: 1e5, 1e6.")
    ] = None,
    embeddings: Annotated[
        list[Path] | None, typer.Option(help="An embeddings folder to measure as well, or instead; repeat the option.")
    ] = None,
    width: Annotated[int, typer.Option(min=1, help="Width of what is drawn.")] = 128,
    out: Annotated[Path, typer.Option(help="Folder for neighbors.json and neighbors.md, and for scratch.")] = Path(
        "bench-results"
    ),
    keep: Annotated[Path | None, typer.Option(help="Keep what is drawn here, and use what is there.")] = None,
) -> None:
    """Nearest nodes: the exact search beside the index.

    With its recall, memory and file."""
    from gscl_scale.bench.neighbors import NeighborsBench, bench_neighbors

    numbers = rows if rows is not None else [] if embeddings else [1e5, 1e6]
    given: list[tuple[str, Sequence[Any]]] = [
        ("--rows", [f"{number:g}" for number in rows or []]),
        ("--embeddings", embeddings or []),
        ("--width", [] if width == 128 else [width]),
    ]
    asked = NeighborsBench([int(number) for number in numbers], embeddings or [], width, _command("neighbors", given))
    print(bench_neighbors(asked, out, keep, Console()))


@bench.command()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="{run}", help="Folders of finished runs.")],
    turns: Annotated[int, typer.Option(min=1, help="How often each page is opened; medians are reported.")] = 5,
    out: Annotated[Path, typer.Option(help="Folder for report.json and report.md.")] = Path("bench-results"),
) -> None:
    """The page of a run in a headless Chromium.

    How fast it opens and answers, and how large it is."""
    try:
        from gscl_scale.bench.report import ReportBench, bench_report
    except ImportError as error:
        raise UserError(f"bench report: {error.name} is not installed; pip install 'gscl-scale[dev]'") from None

    given: list[tuple[str, Sequence[Any]]] = [("--turns", [] if turns == 5 else [turns])]
    command = f"{_command('report', given)} {shlex.join(map(str, runs))}"
    print(bench_report(ReportBench(runs, turns, command), out, Console()))
