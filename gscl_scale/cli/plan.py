"""The verb `plan`: what each stage of a run takes, printed before anything is computed."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gscl_scale.cli.open_run import load_config
from gscl_scale.cli.options import AsJson, ConfigFile, GraphFile, RunOption, Settings, number_option
from gscl_scale.cli.output import print_json, print_table
from gscl_scale.errors import UserError

if TYPE_CHECKING:
    from gscl_scale.config.config import Config
    from gscl_scale.planning.graph_shape import GraphShape
    from gscl_scale.planning.need import Machines, StageNeed

_HEADERS = ["stage", "tasks", "at once", "allocates", "maps", "needs", "disk", "network", "time"]
_MOST = 1e15  # nodes or edges
_LEGEND = (
    "Memory, disk and network in GiB. At once: machines x processes of each. A process allocates memory and maps "
    "files; a machine needs the memory that its processes allocate and that of the files that they read at random. "
    "Disk: what stays + what is removed when the stage is finished. Network: of the machine with most."
)


def _size_or_file(text: str) -> float | Path:
    """A number of nodes, or the table of the nodes."""
    try:
        return float(text)
    except ValueError:
        return Path(text)


def plan(
    file: GraphFile = None,
    nodes: Annotated[
        Any,
        typer.Option(
            "--nodes",
            parser=_size_or_file,
            metavar="NUMBER|FILE",
            help="Nodes of a graph that is not there yet, such as 1e9; with FILE: the table of the nodes.",
        ),
    ] = None,
    edges: Annotated[float | None, number_option("Edges of a graph that is not there yet, such as 1e10.", 1.0)] = None,
    features: Annotated[int | None, number_option("Features of its nodes. Defaults to none.", 1)] = None,
    labelled: Annotated[
        float | None, number_option("Nodes with a label. Defaults to all, or with --nodes NUMBER to none.", 0.0)
    ] = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    run_folder: RunOption = None,
    machines: Annotated[int | None, number_option("Machines of a Ray cluster. Defaults to this one alone.", 1)] = None,
    memory: Annotated[float | None, number_option("Memory of each for the run, in GiB.", 0.1)] = None,
    cores: Annotated[int | None, number_option("Cores of each.", 1)] = None,
    gpus: Annotated[int | None, number_option("GPUs of each.", 0)] = None,
    as_json: AsJson = False,
) -> None:
    """Print what each stage takes: memory, disk, network and time.

    Measures this machine for some seconds, and names the first stage that does not fit."""
    sized = _given_sizes(nodes, edges, features, file)
    table = None if sized else nodes
    config, where = load_config(config_file, settings, run_folder, file, table, named=not sized)
    shape = _shape(config, where, sized, features, labelled)
    from gscl_scale.planning.fit import first_misfit
    from gscl_scale.planning.measure import measure_rates
    from gscl_scale.planning.notes import notes_on
    from gscl_scale.planning.stages import stage_needs

    group = _machines(machines, memory, cores, gpus)
    rates = measure_rates()
    needs = stage_needs(config, shape, group, rates)
    misfit = first_misfit(config, shape, group, _free_disk(where) if group.here else None)
    if as_json:
        print_json({
            "graph": {"nodes": shape.num_nodes, "entries": shape.entries, "features": shape.num_features},
            "machines": asdict(group), "rates": asdict(rates), "stages": [_as_values(need) for need in needs],
            "misfit": asdict(misfit) if misfit else None,
        })  # fmt: skip
        return
    print(_title(shape, group))
    print_table(_HEADERS, [_row(need) for need in needs])
    print(f"{_LEGEND}\nRates: {rates.origin}.")
    for note in notes_on(config, shape, group):
        print(f"{note}.")
    print(f"Does not fit: {misfit.sentence}." if misfit else "All stages fit.")


def _given_sizes(
    nodes: float | Path | None, edges: float | None, features: int | None, file: Path | None
) -> tuple[int, int] | None:
    """Nodes and edges of a graph that is not there yet."""
    if not isinstance(nodes, float):
        if edges is not None or features is not None:
            raise UserError("plan: --edges and --features need --nodes, such as --nodes 1e9 --edges 1e10")
        return None
    if file:
        raise UserError(f"plan: {file} has a size of its own; leave out --nodes, --edges and --features, or the file")
    if edges is None:
        raise UserError("plan: --nodes needs --edges, such as --nodes 1e9 --edges 1e10")
    for option, number in (("--nodes", nodes), ("--edges", edges), ("--features", features or 1)):
        if not 1 <= number <= _MOST:
            raise UserError(f"plan: {option}: expected a number from 1 to {_MOST:g}, got {number:g}")
    return int(nodes), int(edges)


def _shape(
    config: "Config", where: str, sized: tuple[int, int] | None, features: int | None, labelled: float | None
) -> "GraphShape":
    from dataclasses import replace

    from gscl_scale.planning.graph_shape import GraphShape, counted_source, given_size
    from gscl_scale.storage.mirror import small_files

    if sized:
        labelled = labelled or 0
        shape = GraphShape.of_size(given_size(config.graph, *sized, features or 0), config.graph)
    else:
        with small_files(where) as folder:
            if (folder / "graph/manifest.json").exists():
                shape = GraphShape.of_folder(folder / "graph")
            else:
                shape = GraphShape.of_size(counted_source(config.graph), config.graph)
    return shape if labelled is None else replace(shape, labelled=min(int(labelled), shape.num_nodes))


def _machines(number: int | None, memory: float | None, cores: int | None, gpus: int | None) -> "Machines":
    """The machines that are asked for; what is not named is as on this one."""
    from gscl_scale.planning.need import Machines

    this = Machines.this()
    if number is memory is cores is gpus is None:
        return this
    return Machines(number or 1, this.memory if memory is None else int(memory * 2**30), cores or this.cores, gpus or 0)


def _free_disk(where: str) -> int | None:
    from gscl_scale.machine import free_disk
    from gscl_scale.storage.urls import folder_of

    folder = folder_of(where)
    return free_disk(folder) if folder else None


def _title(shape: "GraphShape", machines: "Machines") -> str:
    from gscl_scale.text import format_bytes

    edges = shape.entries // 2 if shape.undirected else shape.entries
    gpus = f", {machines.gpus} GPU{'s' * (machines.gpus > 1)}" if machines.gpus else ""
    many = "this machine" if machines.here else f"{machines.number:,} machine{'s' * (machines.number > 1)}"
    return (
        f"{shape.num_nodes:,} nodes, {edges:,} edges, {shape.num_features:,} features on {many} of "
        f"{format_bytes(machines.memory)}, {machines.cores} cores{gpus}"
    )


def _row(need: "StageNeed") -> tuple[str, ...]:
    from gscl_scale.text import format_duration

    sizes = need.allocated, need.mapped, need.least_bytes
    disk = f"{_gib(need.disk)} + {_gib(need.scratch)}" if need.scratch else _gib(need.disk)
    return (
        need.stage, f"{need.tasks:,}", f"{need.machines} x {need.processes}", *map(_gib, sizes), disk,
        _gib(need.network), format_duration(need.seconds),
    )  # fmt: skip


def _gib(size: int) -> str:
    """A size in GiB; nothing below a hundredth.

    >>> _gib(5 << 40), _gib(3 << 29), _gib(1 << 20)
    ('5,120', '1.50', '0')
    """
    gib = size / 2**30
    return f"{gib:,.0f}" if gib >= 99.95 or gib < 0.005 else f"{gib:.2f}" if gib < 9.995 else f"{gib:.1f}"


def _as_values(need: "StageNeed") -> dict[str, object]:
    return {
        **asdict(need), "process_bytes": need.process_bytes, "least_bytes": need.least_bytes, "seconds": need.seconds,
    }  # fmt: skip
