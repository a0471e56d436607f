"""`gscl-scale bench`: speed and memory, compared with the best other tools."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gscl_scale.cli.options import ConfigFile, Settings
from gscl_scale.config.config import Config
from gscl_scale.errors import UserError
from gscl_scale.machine import usable_cores

if TYPE_CHECKING:
    from gscl_scale.bench.harness import Bench

bench = typer.Typer(help="Compare speed and memory with the best other tools.", no_args_is_help=True)

Turns = Annotated[int, typer.Option(min=1, help="How often everything is measured; medians are reported.")]
Out = Annotated[Path, typer.Option(help="Folder for the results, a .json and a .md file, and for scratch.")]
Keep = Annotated[Path | None, typer.Option(help="Folder for drawn inputs: use those that exist, keep new ones.")]
Graphs = Annotated[
    list[Path] | None, typer.Option(help="A graph folder to measure as well, or instead; repeat the option.")
]
RESULTS = Path("bench-results")


@bench.callback()
def _bench() -> None:
    """Compare speed and memory with the best other tools, in one run on one machine."""


def _begin(context: typer.Context, out: Path, turns: int = 1, keep: Path | None = None, cores: int = 0) -> "Bench":
    from gscl_scale.bench.harness import Bench, taken_cores

    name = str(context.info_name)
    return Bench(name, _command(context), out, turns, keep, cores=taken_cores(cores))


def _command(context: typer.Context) -> str:
    """The command with the options that were given, without those that only name folders of results."""
    options, arguments = list[str](), list[str]()
    for parameter in context.command.params:
        value = context.params[str(parameter.name)]
        source = context.get_parameter_source(str(parameter.name))
        if parameter.name in ("out", "keep") or source is None or source.name == "DEFAULT":
            continue
        values = [_as_typed(one) for one in (value if isinstance(value, list | tuple) else [value])]
        if parameter.param_type_name == "argument":
            arguments += values
        elif isinstance(value, bool):
            options.append(parameter.opts[0] if value else parameter.secondary_opts[0])
        else:
            options += [word for one in values for word in (parameter.opts[0], one)]
    return shlex.join(["gscl-scale", "bench", str(context.info_name), *options, *arguments])


def _as_typed(value: object) -> str:
    short = f"{value:g}" if isinstance(value, float) else ""
    return short if short and float(short) == value else str(value)


@bench.command()
def rings(
    context: typer.Context,
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
    turns: Turns = 3,
    only: Annotated[
        str | None,
        typer.Option(help="Measure one section: tools, or large-balls (graphs whose balls hold all nodes)."),
    ] = None,
    out: Out = RESULTS,
) -> None:
    """Compare our engines with other tools at listing hop rings.

    The tools are igraph, scipy, networkit and torch-geometric, on the same cores. A second section measures whether
    rings.engine auto chooses the faster engine."""
    from gscl_scale.bench.rings import SECTIONS, bench_rings
    from gscl_scale.bench.tools import Depths

    if only and only not in SECTIONS:
        raise UserError(f"bench rings: --only {only}: expected {' or '.join(SECTIONS)}; leave it out to measure both")
    config = Config.load(config_file, settings)
    ours = hops or [config.rings.hops]
    depths = Depths(ours, peer_hops or ours, seconds)
    print(bench_rings(_begin(context, out, turns, cores=cores), config, depths, [only] if only else SECTIONS))


@bench.command()
def changes(
    context: typer.Context,
    config_file: ConfigFile = None,
    settings: Settings = None,
    share: Annotated[
        list[float] | None, typer.Option(help="Share of the edges that change; repeat the option. Default 0.001.")
    ] = None,
    turns: Turns = 3,
    out: Out = RESULTS,
) -> None:
    """Compare sampling since an earlier run with sampling anew.

    Both sample a graph after some of its edges changed."""
    from gscl_scale.bench.changes import bench_changes

    print(bench_changes(_begin(context, out, turns), Config.load(config_file, settings), share or [0.001]))


@bench.command()
def scale(
    context: typer.Context,
    edges: Annotated[
        list[float] | None,
        typer.Option(help="Undirected edges of a graph to draw; repeat the option. Default: 1e6, 3e6, 1e7."),
    ] = None,
    graph: Graphs = None,
    workers: Annotated[
        list[int] | None, typer.Option(help="Workers to use; repeat the option. Default: 1 and one per core.")
    ] = None,
    turns: Turns = 1,
    out: Out = RESULTS,
    keep: Keep = None,
) -> None:
    """Measure hop rings of growing graphs: time, memory and disk.

    Extrapolates to papers100M."""
    from gscl_scale.bench.scale import bench_scale

    sizes = _sizes(edges, graph, [1e6, 3e6, 1e7])
    numbers = workers or sorted({1, len(usable_cores())})
    print(bench_scale(_begin(context, out, turns, keep), sizes, graph or [], numbers))


def _sizes(given: list[float] | None, instead: list[Path] | None, default: list[float]) -> list[int]:
    """Sizes of what is drawn: the given ones; by default nothing if there are folders to measure instead."""
    sizes = given if given is not None else [] if instead else default
    return [int(size) for size in sizes]


@bench.command()
def train(
    context: typer.Context,
    config_file: ConfigFile = None,
    settings: Settings = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps that are timed, after a first one.")] = 5,
    ideas: Annotated[bool, typer.Option(help="Measure our step without each of its ideas as well.")] = True,
    turns: Turns = 2,
    out: Out = RESULTS,
) -> None:
    """Compare a training step with the same one in torch-geometric.

    Measures as well what each of our ideas gives."""
    from gscl_scale.bench.train import bench_train

    print(bench_train(_begin(context, out, turns), Config.load(config_file, settings), steps, ideas))


@bench.command()
def embed(
    context: typer.Context,
    edges: Annotated[
        list[float] | None,
        typer.Option(help="Undirected edges of a graph to draw; repeat the option. Default: 1e6, 1e7."),
    ] = None,
    graph: Graphs = None,
    encoder: Annotated[
        list[str] | None, typer.Option(help="gcn, sage or gat; repeat the option. Default: gcn.")
    ] = None,
    layers: Annotated[int, typer.Option(min=1, help="Layers of the encoder.")] = 2,
    width: Annotated[int, typer.Option(min=1, help="Width of each layer.")] = 128,
    memory_gb: Annotated[float, typer.Option(min=0.1, help="As runtime.embed_memory_gb.")] = 4.0,
    turns: Turns = 1,
    out: Out = RESULTS,
    keep: Keep = None,
) -> None:
    """Measure embedding all nodes as graphs grow.

    Time, memory and disk, layer by layer."""
    from gscl_scale.bench.embed import Encoders, bench_embed

    encoders = Encoders(encoder or ["gcn"], layers, width, memory_gb)
    print(bench_embed(_begin(context, out, turns, keep), _sizes(edges, graph, [1e6, 1e7]), graph or [], encoders))


@bench.command()
def memory(
    context: typer.Context,
    config_file: ConfigFile = None,
    settings: Settings = None,
    graph: Annotated[Path | None, typer.Option(help="A graph folder in place of the graph of the config.")] = None,
    steps: Annotated[int, typer.Option(min=2, help="Steps of the shorter training; the longer has ten times.")] = 10,
    out: Out = RESULTS,
    keep: Annotated[
        Path | None, typer.Option(help="Folder for graph and samples: use those that exist, keep new ones.")
    ] = None,
) -> None:
    """Measure the memory of a training process, early and late.

    After some steps, and after ten times as many anchors and rounds."""
    from gscl_scale.bench.memory import bench_memory

    print(bench_memory(_begin(context, out, keep=keep), Config.load(config_file, settings), steps, graph))


@bench.command()
def neighbors(
    context: typer.Context,
    rows: Annotated[
        list[float] | None, typer.Option(help="Embeddings to draw; repeat the option. Default: 1e5, 1e6.")
    ] = None,
    embeddings: Annotated[
        list[Path] | None, typer.Option(help="An embeddings folder to measure as well, or instead; repeat the option.")
    ] = None,
    width: Annotated[int, typer.Option(min=1, help="Width of drawn embeddings.")] = 128,
    out: Out = RESULTS,
    keep: Keep = None,
) -> None:
    """Compare the exact search for nearest nodes with the index.

    Time and memory of both, recall and file of the index."""
    from gscl_scale.bench.neighbors import bench_neighbors

    numbers = _sizes(rows, embeddings, [1e5, 1e6])
    print(bench_neighbors(_begin(context, out, keep=keep), numbers, embeddings or [], width))


@bench.command()
def report(
    context: typer.Context,
    runs: Annotated[list[Path], typer.Argument(metavar="{run}", help="Folders of finished runs.")],
    turns: Annotated[int, typer.Option(min=1, help="How often each page is opened; medians are reported.")] = 5,
    out: Out = RESULTS,
) -> None:
    """Open the page of a run in a headless Chromium and time it.

    How fast it opens and reacts, and how large it is."""
    try:
        from gscl_scale.bench.report import bench_report
    except ImportError as error:
        raise UserError(f"bench report: {error.name} is not installed; pip install 'gscl-scale[dev]'") from None

    print(bench_report(_begin(context, out, turns), runs))
