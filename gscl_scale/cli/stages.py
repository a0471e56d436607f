"""The verbs of a run: all stages, and each of them."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gscl_scale.cli.open_run import display, enter, load_config, start
from gscl_scale.cli.options import (
    AsJson,
    ConfigFile,
    DryRun,
    GraphFile,
    NodesFile,
    Overwrite,
    RunOption,
    Settings,
    path_option,
)
from gscl_scale.cli.output import print_json, print_table
from gscl_scale.errors import UserError

if TYPE_CHECKING:
    from gscl_scale.config.config import Config
    from gscl_scale.evaluate.schema import Metrics


def run(
    file: GraphFile = None,
    nodes: NodesFile = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    run_folder: RunOption = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
) -> None:
    """Run all stages, from the graph to embeddings and a report.

    Skips finished stages: rerun the command to resume after a stop."""
    if dry_run:
        from gscl_scale.registry.places import refuse_version

        config, where = load_config(config_file, settings, run_folder, file, nodes)
        refuse_version(where)
        _print_plan(config, where, overwrite)
        return
    config, folder, console = start(config_file, settings, run_folder, file, nodes, overwrite)
    from gscl_scale import pipeline  # torch: once the arguments are known to be good
    from gscl_scale.run.folder import Run
    from gscl_scale.stages.lead import lead_command

    began = time.monotonic()
    with lead_command(config) as leads:
        if not leads:
            return
        metrics = pipeline.run(config, folder, console)
    _print_metrics(metrics)
    run = Run.at(folder)
    last = run if config.train.repeats == 1 else run.repeat(config.train.seed)
    print(f"embeddings  {display(last.embeddings / 'embeddings.parquet')}")
    print(f"report      {display(run.report)}")
    print(f"finished in {time.monotonic() - began:.0f} s")


def _print_plan(config: "Config", where: str, overwrite: bool) -> None:
    from gscl_scale.stages.dry_run import plan_run, total_of, words_of
    from gscl_scale.storage.mirror import small_files

    with small_files(where) as folder:
        plan = plan_run(config, folder, overwrite)
        for path in plan.removed:
            print(f"would remove {where}/{path.relative_to(folder)}")
    print_table(
        ["stage", "would", "time", "memory", "disk"], [words_of(stage) for stage in plan.stages], title=f"run {where}"
    )
    print(f"{plan.graph}\n{total_of(plan)}")


def ingest(
    file: GraphFile = None,
    nodes: NodesFile = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    run_folder: RunOption = None,
    overwrite: Overwrite = False,
    source: Annotated[str | None, typer.Option(help="Short for --set graph.source=NAME.")] = None,
) -> None:
    """Read the graph into the run folder.

    --source synthetic alone draws the large preset: 10 million nodes and 100 million edges."""
    from gscl_scale.runtime.console import Console

    settings = [*([f"graph.source={source}"] if source else []), *(settings or [])]
    if (
        source == "synthetic"
        and "preset" not in load_config(config_file, settings, run_folder)[0].graph.model_fields_set
    ):
        settings.append("graph.preset=large")
        Console().say("graph.preset is large; for a small graph add --set graph.preset=small")
    config, folder, console = start(config_file, settings, run_folder, file, nodes, overwrite)
    from gscl_scale.run.record import open_run
    from gscl_scale.stages.ingest import ingest as ingest_stage

    graph = ingest_stage(config, open_run(config, folder), console)
    print(f"graph {graph.name} is in {display(folder / 'graph')}")


def precompute(
    file: GraphFile = None,
    nodes: NodesFile = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    run_folder: RunOption = None,
    overwrite: Overwrite = False,
    since: Annotated[Path | None, path_option("Earlier run folder: sample only what has changed since.")] = None,
) -> None:
    """Sample the rings of every node into Arrow files.

    Verifies the checksums of existing files, and writes damaged ones again."""
    config, folder, console = start(config_file, settings, run_folder, file, nodes, overwrite)
    from gscl_scale.stages.precompute import precompute as precompute_stage
    from gscl_scale.stages.repeats import each_repeat

    for one, part, log in each_repeat(config, folder, console):
        precompute_stage(one, part, log, verify=True, since=since)
        if one.train.reads_samples:
            print(f"samples are in {display(part.samples)}")


def train(
    file: GraphFile = None,
    nodes: NodesFile = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    run_folder: RunOption = None,
    overwrite: Overwrite = False,
) -> None:
    """Train the encoder on the samples."""
    config, folder, console = start(config_file, settings, run_folder, file, nodes, overwrite)
    from gscl_scale.stages import train as training
    from gscl_scale.stages.lead import lead_command
    from gscl_scale.stages.repeats import each_repeat

    with lead_command(config) as leads:
        for one, part, log in each_repeat(config, folder, console) if leads else ():
            training.train(one, part, log)
            print(f"checkpoints are in {display(part.checkpoints)}")


def embed(
    config_file: ConfigFile = None,
    settings: Settings = None,
    run_folder: RunOption = None,
    graph: Annotated[
        Path | None, path_option("Run or graph folder of another graph to embed, with the same features.")
    ] = None,
    out: Annotated[
        Path | None, path_option("Folder for --graph, else a .npy, .parquet or .csv file for a copy.")
    ] = None,
    ids: Annotated[Path | None, path_option("Parquet or CSV file with a column of ids: copy only these nodes.")] = None,
) -> None:
    """Write the embeddings of all nodes.

    Embeds the graph of the run, or the graph of --graph. A copy has all nodes in your order, or those of --ids in its
    order."""
    _check_embed_options(graph, out, ids)
    graph = None if graph is None else _graph_in(graph)
    config, folder, console = start(config_file, settings, run_folder, stored=out is not None)
    from gscl_scale.registry.places import is_in_version, never_changes
    from gscl_scale.stages.embed import copy_embeddings
    from gscl_scale.stages.embed import embed as embed_stage
    from gscl_scale.stages.finished import is_embedded
    from gscl_scale.stages.repeats import each_repeat

    for one, part, log in each_repeat(config, folder, console, stored=out is not None):
        if graph is None and is_in_version(display(folder)) and not is_embedded(one, part):
            raise never_changes(display(folder))
        place = out
        if out and config.train.repeats > 1:
            place = out / part.folder.name if graph else out.with_stem(f"{out.stem}-{part.folder.name}")
        written = embed_stage(one, part, console if graph else log, graph, place if graph else None)
        if place and not graph:
            copy_embeddings(written, place, ids, getattr(one.graph, "id_column", ""))
        print(f"embeddings are in {display(place if place and not graph else written / 'embeddings.parquet')}")


def _check_embed_options(graph: Path | None, out: Path | None, ids: Path | None) -> None:
    if graph is not None and out is None:
        raise UserError("embed: --graph names another graph and --out the folder for its embeddings; give both or none")
    from gscl_scale.embed.store import COPIES

    if graph is None and out is not None and out.suffix not in COPIES:
        raise UserError(f"embed: without --graph, --out must end in .npy, .parquet or .csv, got {out}")
    if graph is not None and out is not None and out.suffix in COPIES:
        raise UserError(f"embed: with --graph, --out is a folder for the embeddings, got the file {out}")
    if ids is not None and (graph is not None or out is None):
        raise UserError(
            "embed: --ids names the nodes to copy; give a .npy, .parquet or .csv file as --out, and no --graph"
        )


def _graph_in(place: Path) -> Path:
    """The graph folder of a run, or a graph folder itself."""
    if place.is_file():
        raise UserError(
            f"embed: --graph {place} is a file; run gscl-scale ingest {place} --run RUN, and name that run: --graph RUN"
        )
    return place / "graph" if (place / "graph/manifest.json").exists() else place


def evaluate(
    config_file: ConfigFile = None, settings: Settings = None, run_folder: RunOption = None, as_json: AsJson = False
) -> None:
    """Evaluate the embeddings.

    Evaluates the input features and the untrained encoder as well."""
    config, folder, console = start(config_file, settings, run_folder, stored=True)
    from gscl_scale import pipeline
    from gscl_scale.registry.places import is_in_version

    if is_in_version(display(folder)):
        metrics = _figures_of_version(config, folder)
    else:
        metrics = pipeline.evaluate_all(config, folder, console)
    print_json(metrics) if as_json else _print_metrics(metrics)


def _figures_of_version(config: "Config", folder: Path) -> "Metrics":
    """The figures of a version of a registry as they are; refused where they would have to be measured."""
    from gscl_scale.registry.places import never_changes
    from gscl_scale.run.folder import Run
    from gscl_scale.run.record import other_work, read_record
    from gscl_scale.stages.finished import known_figures

    run = Run.at(folder)
    metrics = None if other_work(config, run, read_record(folder)) else known_figures(config, run)
    if metrics is None:
        raise never_changes(display(folder))
    return metrics


def report(
    runs: Annotated[list[str] | None, typer.Argument(help="Two or more finished runs to compare.")] = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    run_folder: RunOption = None,
    out: Annotated[Path | None, path_option("File for a comparison of runs. Defaults to comparison.html.")] = None,
) -> None:
    """Write an HTML report of a run.

    With two or more run folders, writes one page that compares them."""
    if runs or out:
        _report_runs(runs or [], out or Path("comparison.html"), bool(config_file or settings or run_folder))
        return
    config, folder, console = start(config_file, settings, run_folder)
    if (folder / "compare.json").exists() and not (folder / "embeddings").exists():
        where = display(folder)
        raise UserError(
            f"report: {where} is a comparison of methods, which {where}/compare.md shows; for the page of one method: "
            f"gscl-scale report --run {where}/compare/METHOD/seed-0"
        )
    from gscl_scale import pipeline
    from gscl_scale.stages.repeats import each_repeat
    from gscl_scale.stages.report import report as report_stage

    for one, part, log in each_repeat(config, folder, console):
        print(f"report is in {display(report_stage(one, part, log))}")
    if config.train.repeats > 1:
        print(f"report of all repeats is in {display(pipeline.report_repeats(config, folder, console))}")


def _report_runs(runs: list[str], out: Path, configured: bool) -> None:
    if len(set(runs)) < 2 or len(set(runs)) < len(runs):
        one = runs[0] if runs else "FOLDER"
        raise UserError(
            f"report: expected two or more different runs to compare, got {', '.join(runs) or 'none'}; "
            f"for the page of one run: gscl-scale report --run {one}, without --out"
        )
    if configured:
        raise UserError("report: a comparison reads the config of each run; leave out --config, --set and --run")
    from gscl_scale.runtime.console import Console
    from gscl_scale.stages.report import report_runs

    report_runs({name: enter(name) for name in runs}, out, Console())
    print(f"comparison is in {out}")


def _print_metrics(metrics: "Metrics") -> None:
    from gscl_scale.evaluate.link_summary import links_table
    from gscl_scale.evaluate.summary import figures_table

    headers, rows, remarks = figures_table(metrics)
    for titles, lines in ((headers, rows), links_table(metrics)):
        if lines:
            print_table(titles, lines)
    for remark in remarks:
        print(remark)
