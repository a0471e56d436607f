"""gscl-scale neighbors: the nodes most similar to one, to some, or to all."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from gscl_scale.cli.options import AsJson, number_option, path_option
from gscl_scale.cli.output import print_json, print_table
from gscl_scale.errors import UserError
from gscl_scale.text import counted


def neighbors(
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="A run folder, the folder of a registry, or the URL of one of them."),
    ] = None,
    run_folder: Annotated[str | None, typer.Option("--run", metavar="PLACE", help="Another way to name RUN.")] = None,
    node: Annotated[list[str] | None, typer.Option("--id", help="One of your ids; repeat the option for more.")] = None,
    ids: Annotated[Path | None, path_option("With --out: a Parquet or CSV file with a column of ids.")] = None,
    everyone: Annotated[bool, typer.Option("--all", help="With --out: all nodes.")] = False,
    count: Annotated[int, number_option("Number of neighbours of each node.", 1)] = 10,
    index: Annotated[
        bool, typer.Option("--index", help="Search an approximate index, which is built at the first use.")
    ] = False,
    out: Annotated[
        Path | None, path_option("Write the neighbours to this .parquet or .csv file instead of the screen.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the nodes with the most similar embeddings (cosine).

    The search is exact and uses bounded memory; --index makes it approximate and much faster. If `train.repeats` > 1,
    the embeddings of the first repeat are searched."""
    from gscl_scale.embed.select import select_nodes
    from gscl_scale.embed.store import Embeddings
    from gscl_scale.neighbors.answers import WRITERS, answers, searcher, write_answers
    from gscl_scale.neighbors.places import find_embeddings
    from gscl_scale.runtime.console import Console

    if run and run_folder:
        meant = shlex.join(["gscl-scale", "neighbors", "--run", run_folder, "--id", run])
        raise UserError(f"neighbors: expected one run, got {run} and {run_folder}; if {run} is a node: {meant}")
    if (where := run or run_folder) is None:
        raise UserError("neighbors: expected one run, such as gscl-scale neighbors --run runs/mine --id 42")
    if sum((bool(node), ids is not None, everyone)) != 1:
        raise UserError("neighbors: expected one of --id, --ids and --all; say whose neighbours you want")
    if out is None and not node:
        raise UserError("neighbors: --ids and --all need --out, a .parquet or .csv file for the neighbours")
    if out is not None and out.suffix not in WRITERS:
        raise UserError(f"neighbors: --out names a file that ends in .parquet or .csv, got {out}")
    place, console = find_embeddings(where), Console()
    embeddings = Embeddings(place.embeddings)
    nodes = select_nodes(embeddings.ids, node, ids, place.name, place.id_column)
    search, how = searcher(embeddings, place, count, index, console)
    if out:
        rows = write_answers(out, embeddings, nodes, search, console)
        asked = counted(nodes.size, "node", "nodes")
        print(f"{counted(rows, 'neighbour', 'neighbours')} of {asked} of {place.name} are in {out} ({how})")
        return
    found = answers(place, embeddings, nodes, search)
    if as_json:
        print_json({"run": place.name, "how": how, "nodes": found})
        return
    for answer in found:
        headers = list(answer["neighbors"][0]) if answer["neighbors"] else ["rank", "id", "cosine"]
        cells = [tuple(_cell(value) for value in neighbor.values()) for neighbor in answer["neighbors"]]
        about = f", class {answer['class']}" if answer["class"] else ""
        print_table(headers, cells, title=f"nearest to {answer['id']}{about}")
    print(f"{place.name}: {embeddings.rows:,} nodes, {how}")


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
