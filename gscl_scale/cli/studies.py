"""The verbs of many runs: comparison of methods, search for settings, tables of the paper, retraining."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gscl_scale.cli.open_run import display, load_retrain_config, start
from gscl_scale.cli.options import (
    AsJson,
    ConfigFile,
    GraphFile,
    NodesFile,
    RetrainConfigFile,
    RunOption,
    Settings,
    number_option,
    path_option,
)
from gscl_scale.cli.output import print_json, print_table
from gscl_scale.errors import ConfigError, RunError, UserError
from gscl_scale.text import join_names

if TYPE_CHECKING:  # help texts do not wait for it
    from gscl_scale.config.config import Config


def compare(
    file: GraphFile = None,
    nodes: NodesFile = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    run_folder: RunOption = None,
    methods: Annotated[
        str, typer.Option(metavar="NAMES", help="Comma-separated method names, or all. Defaults to the usual ones.")
    ] = "",
    trials: Annotated[
        int | None, number_option("Search for the settings of each trained method first, with so many trials.", 1)
    ] = None,
    space: Annotated[
        Path | None, path_option("YAML file of keys and values for --trials. Defaults to the space of tune.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare methods on the same graph.

    The usual methods: input features, the untrained encoder, supervised, dgi, grace, bgrl, cca-ssg, first-hop,
    gscl-pairwise and gscl-listwise; and the peers, which embed the structure alone: spectral, cleora, prone, deepwalk
    and node2vec. Others by name, or all: gat, gae, vgae, mvgrl, gmi, gca, afgrl, af-gcl, autossl,
    g-bt, graphmae, graphmae2, s2gae, sugrl, costa, graphacl, blnn, and those of installed packages. Skips finished
    methods."""
    if space and not trials:
        raise ConfigError("--space: there is no search without --trials; add --trials 20, or leave --space out")
    if file and methods and not file.exists():
        raise UserError(
            f"{file} does not exist; if it is a method, separate the names with commas: --methods {methods},{file}"
        )

    def check(config: "Config", where: str) -> None:
        from gscl_scale.studies.tune.space import read_space

        if space:
            read_space(space, config, fixed=())

    config, folder, console = start(config_file, settings, run_folder, file, nodes, check=check)
    from gscl_scale.report.compare_intervals import leaks
    from gscl_scale.report.compare_methods import best_sentence, comparison_headers, comparison_remarks, comparison_rows
    from gscl_scale.stages.lead import lead_command
    from gscl_scale.studies.budget import Budget
    from gscl_scale.studies.compare import compare, named_methods

    budget = Budget(trials, space) if trials else None
    with lead_command(config) as leads:
        if not leads:
            return
        names = _names_in(methods)
        result = compare(config, folder, names, console, budget)
    if as_json:
        print_json(result)
    else:
        print_table(comparison_headers(result), comparison_rows(result), title=result["graph"]["name"])
        print("\n".join(comparison_remarks(result)))
        print(f"figures, settings and plot: {display(folder / 'compare')}.json, .md and .png")
        if "best" in result:
            run = folder / result["best"]["run"]
            print(f"{best_sentence(result)}\nembeddings  {display(run / 'embeddings' / 'embeddings.parquet')}")
    if "chance" in result and (leaking := leaks(result["methods"], result["chance"])):
        titles = join_names([row["title"] for row in leaking])
        raise RunError(f"labels leak: they are shuffled, and not at chance: {titles}; the figures are kept")
    if failed := [
        row["method"] for row in result["methods"] if "error" in row and row["method"] in named_methods(names)
    ]:
        raise RunError(f"{', '.join(failed)} failed, for the reasons above; the figures of the others are kept")


def tune(
    file: GraphFile = None,
    nodes: NodesFile = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    run_folder: RunOption = None,
    trials: Annotated[int, number_option("Number of trials, including those of an earlier attempt.", 1)] = 20,
    space: Annotated[
        Path | None, path_option("YAML file of keys and values. Defaults to nearly those of the paper.")
    ] = None,
    minutes: Annotated[float | None, number_option("Stop after this many minutes.", 0.01)] = None,
) -> None:
    """Search for settings that score best on validation nodes.

    Runs trials on Ray Tune and stops weak ones early. Rerun the command to resume after a stop."""

    def check(config: "Config", where: str) -> None:
        from gscl_scale.studies.tune.space import read_space

        if space:
            read_space(space, config)
        if not _may_choose(config):
            raise ConfigError(
                "tune: the graph has no labels, so that no trial can be chosen; bring some (--nodes FILE --set "
                f"graph.label_column=NAME), or hold edges out: {_holding_out(where, bool(file or config_file))}"
            )

    config, folder, console = start(config_file, settings, run_folder, file, nodes, check=check)
    from gscl_scale.studies.tune.leaderboard import counts, headers, leaderboard_rows
    from gscl_scale.studies.tune.tune import tune

    book = tune(config, space, folder, trials, minutes, console)
    print_table(headers(book.measure), leaderboard_rows(book.ended()), title=counts(book.ended()))
    best = display(folder / "best.yaml")
    print(f"leaderboard  {display(folder / 'leaderboard.md')}")
    print(f"best config  {best}; gscl-scale run --config {best} --run {display(folder)}-best")


def _may_choose(config: "Config") -> bool:
    """Whether a figure may choose a trial; False where that is known before tables are read."""
    tables = config.graph if config.graph.source == "tables" else None
    labelled = tables is None or bool(tables.nodes and tables.label_columns)
    ranked = config.train.held_out > 0 and config.train.reads_samples
    return labelled or ranked or config.evaluate.held_out_edges > 0


def _holding_out(where: str, named: bool) -> str:
    """The command of this process with edges held out, in another run where this one has a graph already."""
    words = ["gscl-scale", *sys.argv[1:], "--set", "evaluate.held_out_edges=0.1"]
    if (Path(where) / "graph").exists():
        other = f"{where.rstrip('/')}-2"
        words = [other if word == where else word for word in words]
        words += ([] if other in words else ["--run", other]) + ([] if named else ["--config", f"{where}/config.yaml"])
    return shlex.join(words)


def reproduce(
    table: Annotated[
        str,
        typer.Argument(
            help="A table: main, heterophily, methods, random, arxiv, topology, tasks, infonce, ablation, agreement "
            "or featureless; or a figure: hops, sampling, gates, width, similarity or consistency."
        ),
    ],
    only: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this graph; can be repeated.")] = None,
    methods: Annotated[
        str, typer.Option(metavar="NAMES", help="Comma-separated method names, as in compare. Defaults to all rows.")
    ] = "",
    settings: Settings = None,
    seeds: Annotated[int | None, number_option("Seeds per cell. Defaults to those of the table, or 5.", 1)] = None,
    configs: Annotated[Path, path_option("Folder with a config file for each graph.")] = Path("configs/paper"),
    out: Annotated[Path, path_option("Folder for the results; finished cells in it are skipped.")] = Path("results"),
    page: Annotated[bool, typer.Option("--page", help="Write the table from finished cells; measure nothing.")] = False,
) -> None:
    """Reproduce a table or a figure of the paper.

    Skips finished cells: rerun the command to resume, over days and on several machines."""
    from gscl_scale.runtime.console import Console
    from gscl_scale.studies.reproduce.reproduce import reproduce

    names = _names_in(methods)
    print(reproduce(table, configs, out, only or [], settings or [], seeds, Console(), page, names))


def retrain(
    where: Annotated[
        str, typer.Option("--registry", metavar="PLACE", help="Registry folder or URL, such as s3://bucket/name.")
    ],
    config_file: RetrainConfigFile = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Run one step of scheduled retraining.

    Compares the graph with that of the current version, recomputes what has changed, trains, and promotes the result
    if it passes the gate. Exit code 0: promoted, a candidate, or nothing to do; 3: refused by the gate; 4: another run
    has the lease. Rerun the command to resume after a stop."""
    config = load_retrain_config(config_file, settings, where)
    from gscl_scale.retrain.notify import nightly
    from gscl_scale.runtime.console import Console

    outcome = nightly(config, where, Console())
    print_json(outcome.dump()) if as_json else print(outcome.sentence())
    if outcome.result == "refused":
        raise typer.Exit(3)


def _names_in(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
