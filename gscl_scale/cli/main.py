"""The command line: parses, calls the pipeline, and turns errors into one sentence and an exit code."""

import errno
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
import yaml

from gscl_scale.cli.bench import bench
from gscl_scale.cli.doctor.command import doctor
from gscl_scale.cli.neighbors import neighbors
from gscl_scale.cli.open_run import in_user_words, named, opened, places, shown, start
from gscl_scale.cli.options import AsJson, ConfigFile, RunOption, Settings, path_option
from gscl_scale.cli.output import json_text, print_json, print_table
from gscl_scale.cli.registry import registry
from gscl_scale.config.config import Config
from gscl_scale.config.schema import schema_rows
from gscl_scale.errors import INTERRUPTED, GsclError, LeaseError, RunError, UserError
from gscl_scale.machine import is_lack_of_memory
from gscl_scale.run.folder import Run
from gscl_scale.run.record import open_run
from gscl_scale.runtime.console import Console
from gscl_scale.stages.status import status as run_status
from gscl_scale.storage.mirror import small_files
from gscl_scale.version import __version__

if TYPE_CHECKING:
    from gscl_scale.evaluate.schema import Metrics

app = typer.Typer(
    name="gscl-scale",
    help="Self-supervised node embeddings for large graphs: one command from a graph to embeddings and a report.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)


def main() -> None:
    """Entry point: exit code 0 done, 1 the work failed, 2 bad input, 4 another process works there; 3 of retrain."""
    try:
        with places:
            app(standalone_mode=True)
    except UserError as error:
        _fail(str(error), 2)
    except LeaseError as error:
        _fail(str(error), 4)
    except GsclError as error:
        _fail(str(error), 1)
    except NotADirectoryError as error:
        _fail(f"{error.filename}: a part of this path is a file, expected a folder; choose another --run or --out", 2)
    except OSError as error:
        told = f"{error.filename or 'a file'}: {error.strerror or error}"
        if error.filename and error.errno in _NOT_ALLOWED:
            _fail(f"{told}; finished work is kept: get the right to use it, or name another place", 2)
        _fail(f"{told}; finished work is kept, run again to go on", 1)
    except (MemoryError, RuntimeError) as error:
        if not is_lack_of_memory(error):
            raise
        _fail(
            "this needs more memory than there is; finished work is kept: lower train.batch_size or "
            "runtime.embed_memory_gb, set model.propagation to sampled, or give it more, and run again",
            1,
        )
    except SystemExit as leaving:
        if leaving.code == INTERRUPTED:  # typer has heard the interrupt, and said nothing
            _fail("stopped; finished work is kept, run the same command again to go on", INTERRUPTED)
        raise


def _fail(sentence: str, code: int) -> None:
    print(f"gscl-scale: {in_user_words(sentence)}", file=sys.stderr)
    sys.exit(code)


@app.command()
def run(config_file: ConfigFile = None, settings: Settings = None, run_folder: RunOption = None) -> None:
    """From the graph to embeddings, figures and a report.

    Finished stages are skipped, so the same command goes on after a stop."""
    from gscl_scale import pipeline
    from gscl_scale.stages import train as training

    config, folder, console = start(config_file, settings, run_folder)
    began = time.monotonic()
    with training.leading(config) as leads:
        if not leads:
            return
        metrics = pipeline.run(config, folder, console)
    _print_figures(metrics)
    whole = Run.at(folder)
    last = whole if config.train.repeats == 1 else whole.repeat(config.train.seed)
    print(f"embeddings  {shown(last.embeddings / 'embeddings.parquet')}")
    print(f"report      {shown(whole.report)}")
    print(f"finished in {time.monotonic() - began:.0f} s")


@app.command()
def ingest(
    config_file: ConfigFile = None,
    settings: Settings = None,
    run_folder: RunOption = None,
    source: Annotated[str | None, typer.Option(help="Short for --set graph.source=NAME.")] = None,
) -> None:
    """Bring the graph into the run folder.

    --source synthetic without a preset makes the large one: 10 million nodes, 100 million edges."""
    from gscl_scale.stages.ingest import ingest as ingest_stage

    settings = [f"graph.source={source}", *(settings or [])] if source else settings
    config, where = named(config_file, settings, run_folder)
    console = Console()
    if source == config.graph.source == "synthetic" and "preset" not in config.graph.model_fields_set:
        config, where = named(config_file, [*(settings or []), "graph.preset=large"], run_folder)
        console.say("graph.preset is large; for a small graph add --set graph.preset=small")
    folder = opened(where)
    graph = ingest_stage(config, open_run(config, folder), console)
    print(f"graph {graph.name} is in {shown(folder / 'graph')}")


@app.command()
def stats(
    config_file: ConfigFile = None,
    settings: Settings = None,
    run_folder: RunOption = None,
    anchors: Annotated[
        int | None, typer.Option(min=1, help="Nodes to sample; by default all where that is cheap.")
    ] = None,
    plot: Annotated[Path | None, path_option("Write the plot of LC(n) here (.svg, .png or .pdf).")] = None,
    as_json: AsJson = False,
) -> None:
    """Degrees, homophily, label consistency, ring sizes."""
    from gscl_scale.evaluate.graph_statistics import statistics_table
    from gscl_scale.report.plots import PICTURES, plot_consistency
    from gscl_scale.stages.evaluate import stats as stats_stage
    from gscl_scale.stages.ingest import ingest as ingest_stage

    if plot and plot.suffix.lower() not in PICTURES:
        raise UserError(f"--plot: expected a file that ends in {' or '.join(PICTURES)}, got {plot}")
    config, folder, console = start(config_file, settings, run_folder)
    opened = open_run(config, folder)
    ingest_stage(config, opened, console)
    result = stats_stage(opened, anchors)
    target = plot or folder / "consistency.svg"
    plot_consistency(result, target)
    if as_json:
        print_json(result)
        return
    print_table(["", ""], statistics_table(result), title=str(result.get("name", "")))
    print(f"plot of LC(n): {shown(target)}")


@app.command()
def precompute(
    config_file: ConfigFile = None,
    settings: Settings = None,
    run_folder: RunOption = None,
    since: Annotated[
        Path | None, path_option("An earlier run folder: only what changed since then is sampled again.")
    ] = None,
) -> None:
    """Sample the rings of every node into Arrow files.

    Files that are there are compared with their checksums; damaged ones are made again.
    """
    from gscl_scale.stages.precompute import precompute as precompute_stage
    from gscl_scale.stages.repeats import each_repeat

    config, folder, console = start(config_file, settings, run_folder)
    for one, part, told in each_repeat(config, folder, console):
        precompute_stage(one, part, told, verify=True, since=since)
        if one.train.reads_samples:
            print(f"samples are in {shown(part.samples)}")


@app.command()
def train(config_file: ConfigFile = None, settings: Settings = None, run_folder: RunOption = None) -> None:
    """Train the encoder on the samples."""
    from gscl_scale.stages import train as training
    from gscl_scale.stages.repeats import each_repeat

    config, folder, console = start(config_file, settings, run_folder)
    with training.leading(config) as leads:
        for one, part, told in each_repeat(config, folder, console) if leads else ():
            training.train(one, part, told)
            print(f"checkpoints are in {shown(part.checkpoints)}")


@app.command()
def embed(
    config_file: ConfigFile = None,
    settings: Settings = None,
    run_folder: RunOption = None,
    graph: Annotated[
        Path | None, path_option("Another graph folder, with the same features, to embed with the trained model.")
    ] = None,
    out: Annotated[
        Path | None,
        path_option("The folder for the embeddings of --graph; without it a .npy or .parquet file for a copy."),
    ] = None,
    ids: Annotated[
        Path | None,
        path_option("With a file as --out: only the nodes of the column id of this Parquet or CSV file."),
    ] = None,
) -> None:
    """Write the embeddings of all nodes.

    Of the run's graph, or of another one with the same features. With a file as --out they are copied there too: all,
    in the order of your nodes, or those of --ids in its order."""
    from gscl_scale.stages.embed import copy_embeddings
    from gscl_scale.stages.embed import embed as embed_stage
    from gscl_scale.stages.repeats import each_repeat

    if graph is not None and out is None:
        raise UserError("embed: --graph names another graph and --out the folder for its embeddings; give both or none")
    if graph is None and out is not None and out.suffix not in (".npy", ".parquet"):
        raise UserError(f"embed: without --graph, --out names a file that ends in .npy or .parquet, got {out}")
    if ids is not None and (graph is not None or out is None):
        raise UserError(
            "embed: --ids says which nodes are copied; name a .npy or .parquet file as --out, and no --graph"
        )
    config, folder, console = start(config_file, settings, run_folder)
    for one, part, told in each_repeat(config, folder, console):
        place = out
        if out and config.train.repeats > 1:
            place = out / part.folder.name if graph else out.with_stem(f"{out.stem}-{part.folder.name}")
        made = embed_stage(one, part, told, graph, place if graph else None)
        if place and not graph:
            copy_embeddings(made, place, ids)
        print(f"embeddings are in {shown(place if place and not graph else made / 'embeddings.parquet')}")


@app.command()
def evaluate(
    config_file: ConfigFile = None, settings: Settings = None, run_folder: RunOption = None, as_json: AsJson = False
) -> None:
    """Measure the embeddings.

    Raw features and the untrained encoder always stand beside them."""
    from gscl_scale import pipeline

    config, folder, console = start(config_file, settings, run_folder)
    metrics = pipeline.evaluate_all(config, folder, console)
    print_json(metrics) if as_json else _print_figures(metrics)


@app.command()
def report(
    runs: Annotated[
        list[str] | None, typer.Argument(help="Finished runs to compare, two or more; none: one run.")
    ] = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    run_folder: RunOption = None,
    out: Annotated[Path | None, path_option("Runs to compare: the page. Default: comparison.html, here.")] = None,
) -> None:
    """Write the page to look at.

    With two or more run folders: one page that compares them."""
    from gscl_scale import pipeline
    from gscl_scale.stages.repeats import each_repeat
    from gscl_scale.stages.report import report as report_stage

    if runs or out:
        _report_runs(runs or [], out or Path("comparison.html"), bool(config_file or settings or run_folder))
        return
    config, folder, console = start(config_file, settings, run_folder)
    for one, part, told in each_repeat(config, folder, console):
        path = report_stage(one, part, told)
        print(f"report is in {shown(path)}")
    if config.train.repeats > 1:
        print(f"report of all repeats is in {shown(pipeline.report_repeats(config, folder, console))}")


def _report_runs(runs: list[str], out: Path, beside: bool) -> None:
    """The page that compares runs."""
    from gscl_scale.stages.report import report_runs

    if len(set(runs)) < 2 or len(set(runs)) < len(runs):
        raise UserError(
            f"report: expected two or more different runs to compare, got {', '.join(runs) or 'none'}; "
            "for the page of one run use --config or --run, without --out"
        )
    if beside:
        raise UserError("report: runs to compare bring their own settings; leave --config, --set and --run out")
    report_runs({name: opened(name) for name in runs}, out, Console())
    print(f"comparison is in {out}")


@app.command()
def status(
    config_file: ConfigFile = None,
    settings: Settings = None,
    run_folder: RunOption = None,
    as_json: AsJson = False,
    watch: Annotated[
        float | None, typer.Option(min=0.1, help="Look again every so many seconds until the end.")
    ] = None,
) -> None:
    """Which stages are complete or missing, and since when."""
    where = run_folder or named(config_file, settings, None)[1]
    while not _print_status(where, as_json) and watch:
        time.sleep(watch)


def _print_status(where: str, as_json: bool) -> bool:
    """Print the state of every stage; whether all are complete."""
    with small_files(where) as folder:
        states = run_status(folder)
    complete = all(state.state == "complete" for state in states)
    if as_json:
        print_json([vars(state) for state in states])
        return complete
    rows = []
    for state in states:
        since = datetime.fromtimestamp(state.since).strftime("%Y-%m-%d %H:%M:%S") if state.since else ""
        rows.append((state.stage, state.state, since, state.detail, str(state.place.relative_to(folder))))
    print_table(["stage", "state", "since", "", "where"], rows, title=f"run {where}")
    return complete


@app.command("config")
def show_config(
    config_file: ConfigFile = None,
    settings: Settings = None,
    schema: Annotated[bool, typer.Option("--schema", help="Every key with type, default and one sentence.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the resolved configuration."""
    if schema and as_json:
        print_json(Config.model_json_schema())
    elif schema:
        for key, kind, default, sentence in schema_rows():
            print(f"{key}\n    {kind}; default {default if default else repr(default)}\n    {sentence}")
    else:
        values = Config.load(config_file, settings).dump()
        print(json_text(values) if as_json else yaml.safe_dump(values, sort_keys=False, allow_unicode=True).rstrip())


@app.command()
def compare(
    config_file: ConfigFile = None,
    settings: Settings = None,
    run_folder: RunOption = None,
    methods: Annotated[str, typer.Option(help="Names with commas between them; by default all.")] = "",
    as_json: AsJson = False,
) -> None:
    """The methods side by side on the same graph.

    Raw features, the untrained encoder, supervised, dgi, grace, bgrl, cca-ssg, first-hop, gscl-pairwise and
    gscl-listwise. Finished ones are skipped."""
    from gscl_scale.report.compare_methods import COMPARISON, comparison_remarks, comparison_rows
    from gscl_scale.stages import train as training
    from gscl_scale.studies.compare import compare
    from gscl_scale.train.objectives.methods import METHODS

    config, folder, console = start(config_file, settings, run_folder)
    with training.leading(config) as leads:
        if not leads:
            return
        names = [name.strip() for name in methods.split(",") if name.strip()]
        result = compare(config, folder, names, console)
    if as_json:
        print_json(result)
    else:
        print_table(COMPARISON, comparison_rows(result), title=result["graph"]["name"])
        print("\n".join(comparison_remarks(result)))
        print(f"figures, settings and plot: {shown(folder / 'compare')}.json, .md and .png")
    if failed := [row["method"] for row in result["methods"] if "error" in row and row["method"] in (names or METHODS)]:
        raise RunError(f"{', '.join(failed)} failed, for the reasons above; the figures of the others are kept")


@app.command()
def tune(
    config_file: ConfigFile = None,
    settings: Settings = None,
    run_folder: RunOption = None,
    trials: Annotated[int, typer.Option(min=1, help="Trials in all, those of an earlier attempt included.")] = 20,
    space: Annotated[
        Path | None, path_option("YAML file of keys and their values; by default the ranges of the paper.")
    ] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="Stop after so long; the same command goes on.")] = None,
) -> None:
    """Search for settings that are best on validation nodes.

    Trials run on Ray Tune; those that fall behind are stopped early. The same command goes on after a stop."""
    from gscl_scale.studies.tune.leaderboard import HEADERS, counts, leaderboard_rows
    from gscl_scale.studies.tune.tune import tune as tune_tune

    config, folder, console = start(config_file, settings, run_folder)
    ended = tune_tune(config, space, folder, trials, minutes, console)
    print_table(HEADERS, leaderboard_rows(ended), title=counts(ended))
    best = shown(folder / "best.yaml")
    print(f"leaderboard  {shown(folder / 'leaderboard.md')}")
    print(f"best config  {best}; gscl-scale run --config {best} --run {shown(folder)}-best")


@app.command()
def reproduce(
    table: Annotated[
        str,
        typer.Argument(
            help="main, heterophily, methods, random, arxiv, topology, tasks, infonce, ablation, agreement, or a "
            "figure: hops, sampling, gates, width, similarity, consistency."
        ),
    ],
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="One graph of the table; can be repeated.")
    ] = None,
    settings: Settings = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Seeds of each cell; by default as in the table that is there, else 5.")
    ] = None,
    configs: Annotated[Path, path_option("Folder with a config file for each graph.")] = Path("configs/paper"),
    out: Annotated[Path, path_option("Folder for the results; cells that are there are kept.")] = Path("results"),
    page: Annotated[bool, typer.Option("--page", help="Measure nothing; write the table from what is kept.")] = False,
) -> None:
    """A table of the paper, measured beside what is published.

    Or a figure. Finished cells are kept, so the same command goes on, over days and on several machines."""
    from gscl_scale.studies.reproduce.reproduce import reproduce as measured

    print(measured(table, configs, out, only or [], settings or [], seeds, Console(), page))


@app.command()
def retrain(
    where: Annotated[str, typer.Option("--registry", help="Folder of the versions, or a URL: s3://bucket/name.")],
    config_file: ConfigFile = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """One safe step of scheduled retraining.

    Compares the graph with that of the current version, computes again what changed, trains, and makes the result
    current if it passes the gate. Exit code 0: promoted, or nothing to do; 3: refused by the gate; 4: another run
    has the lease. After a stop the same command goes on."""
    from gscl_scale.retrain.notify import nightly

    told = nightly(Config.load(config_file, settings), where, Console())
    print_json(told.dump()) if as_json else print(told.sentence())
    if told.result == "refused":
        raise typer.Exit(3)


app.command()(neighbors)
app.command()(doctor)
app.add_typer(bench, name="bench")
app.add_typer(registry, name="registry")


@app.callback(invoke_without_command=True)
def _global(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(f"gscl-scale {__version__}")
        raise typer.Exit


def _print_figures(metrics: "Metrics") -> None:
    from gscl_scale.evaluate.summary import figures_table

    headers, rows, remarks = figures_table(metrics)
    if rows:
        print_table(headers, rows)
    for remark in remarks:
        print(remark)


if __name__ == "__main__":
    main()
