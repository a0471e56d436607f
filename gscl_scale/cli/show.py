"""The verbs that show something: statistics of the graph, the state of a run, the configuration."""

import difflib
import time
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from gscl_scale.cli.open_run import display, load_config, refuse_absent, start
from gscl_scale.cli.options import (
    AsJson,
    ConfigFile,
    GraphFile,
    NodesFile,
    RunOption,
    Settings,
    number_option,
    path_option,
)
from gscl_scale.cli.output import json_text, print_json, print_table
from gscl_scale.errors import UserError


def stats(
    file: GraphFile = None,
    nodes: NodesFile = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    run_folder: RunOption = None,
    anchors: Annotated[int | None, number_option("Nodes to sample. Defaults to all where that is fast.", 1)] = None,
    plot: Annotated[Path | None, path_option("File for the plot of LC(n): .svg, .png or .pdf.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compute degrees, homophily, label consistency, ring sizes."""
    config, folder, console = start(config_file, settings, run_folder, file, nodes)
    from gscl_scale.evaluate.graph_statistics import statistics_table
    from gscl_scale.report.plots import PICTURES, plot_consistency
    from gscl_scale.run.record import open_run
    from gscl_scale.stages.evaluate import stats as stats_stage
    from gscl_scale.stages.ingest import ingest as ingest_stage

    if plot and plot.suffix.lower() not in PICTURES:
        raise UserError(f"--plot: expected a file that ends in {' or '.join(PICTURES)}, got {plot}")
    run = open_run(config, folder)
    ingest_stage(config, run, console)
    result = stats_stage(run, anchors)
    target = plot or folder / "consistency.svg"
    plot_consistency(result, target)
    if as_json:
        print_json(result)
        return
    print_table(["", ""], statistics_table(result), title=str(result.get("name", "")))
    print(f"plot of LC(n): {display(target)}")


def status(
    config_file: ConfigFile = None,
    settings: Settings = None,
    run_folder: RunOption = None,
    as_json: AsJson = False,
    watch: Annotated[float | None, number_option("Repeat every so many seconds until all is complete.", 0.1)] = None,
) -> None:
    """Show which stages are complete, and since when."""
    where = run_folder or load_config(config_file, settings, None)[1]
    while not _print_status(where, as_json) and watch:
        time.sleep(watch)


def _print_status(where: str, as_json: bool) -> bool:
    """Print the state of every stage; returns whether all are complete."""
    from gscl_scale.stages.status import status
    from gscl_scale.storage.mirror import small_files

    with small_files(where) as folder:
        if not (folder / "run.json").exists():
            refuse_absent(where)
        states = status(folder)
    if as_json:
        print_json([vars(state) for state in states])
    else:
        rows = []
        for state in states:
            since = datetime.fromtimestamp(state.since).strftime("%Y-%m-%d %H:%M:%S") if state.since else ""
            rows.append((state.stage, state.state, since, state.detail, str(state.place.relative_to(folder))))
        print_table(["stage", "state", "since", "", "where"], rows, title=f"run {where}")
    return all(state.state == "complete" for state in states)


def config(
    keys: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY", help="With --schema: only keys that begin so, such as train or train.epochs."),
    ] = None,
    config_file: ConfigFile = None,
    settings: Settings = None,
    run_folder: Annotated[
        str | None, typer.Option("--run", metavar="PLACE", help="Run whose stored configuration is printed.")
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Describe every key: type, default and meaning.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the resolved configuration of a file or a run."""
    import yaml

    from gscl_scale.config.config import Config
    from gscl_scale.config.schema import schema_rows

    described = _described(schema_rows(), keys or [])
    if keys and (not schema or as_json):
        raise UserError(f"config: {keys[0]} is a key; describe it with gscl-scale config --schema {keys[0]}")
    if schema and as_json:
        print_json(Config.model_json_schema())
    elif schema:
        for key, kind, default, description in described:
            print(f"{key}\n    {kind}; default {default or repr(default)}\n    {description}")
    else:
        values = load_config(config_file, settings, run_folder, named=run_folder is not None)[0].dump()
        print(json_text(values) if as_json else yaml.safe_dump(values, sort_keys=False, allow_unicode=True).rstrip())


def _described(rows: list[tuple[str, str, str, str]], keys: list[str]) -> list[tuple[str, str, str, str]]:
    """The rows of these keys and of all keys below them, or of all; UserError for a key that does not exist."""
    found = [row for row in rows if not keys or any(f"{row[0].split(' ')[0]}.".startswith(f"{key}.") for key in keys)]
    for key in keys:
        if not any(f"{row[0].split(' ')[0]}.".startswith(f"{key}.") for row in found):
            known = list(dict.fromkeys(row[0].split(" ")[0] for row in rows))
            names = {name: name.rpartition(".")[2] for name in known}
            alike = {*difflib.get_close_matches(key.rpartition(".")[2], names.values(), cutoff=0.7)}
            close = difflib.get_close_matches(key, known, cutoff=0.6) or [one for one in names if names[one] in alike]
            raise UserError(
                f"config: there is no key {key}; "
                + (f"did you mean {' or '.join(close)}?" if close else "gscl-scale config --schema lists all")
            )
    return found
