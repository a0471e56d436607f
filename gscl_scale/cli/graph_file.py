"""A run that begins with a file: its config is what was recognized, what the run folder keeps, and what is set."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gscl_scale.errors import UserError

if TYPE_CHECKING:  # help texts do not wait for it
    from gscl_scale.config.config import Config

_ENDINGS = (".gz", ".zst")
_CUTS = ("separator", "header", "comment", "nodes_separator", "nodes_header")  # with others, columns have other names
_HEAD = """# Settings of this run; those that are not here have their defaults.
# Change them, and start another run: gscl-scale run --config {file} --run {run}-2
# All settings: gscl-scale config --schema
"""


def default_run(file: Path) -> str:
    """The run folder of a graph file.

    >>> default_run(Path("data/edges.csv.gz"))
    'runs/edges'
    """
    name = file.resolve().name
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return f"runs/{Path(name).stem}"


def config_of_file(file: Path, nodes: Path | None, settings: list[str], kept: dict[str, Any], where: str) -> "Config":
    """The configuration of a run on this file; prints what was recognized.

    kept    values of an earlier run in the same folder
    """
    from gscl_scale.config.config import Config
    from gscl_scale.config.read import apply_setting
    from gscl_scale.graph.sources.recognize import recognize

    source = {"source": "npz", "path": str(file)} if file.suffix == ".npz" else {"source": "tables", "edges": str(file)}
    asked: dict[str, Any] = {"graph": {}}
    for setting in settings:
        apply_setting(asked, setting)
    if (other := asked["graph"].get("source", source["source"])) != source["source"]:
        raise UserError(f"{file} and --set graph.source={other} both name a graph; leave one out")
    Config.load(None, settings, {"graph": source})  # refuses a wrong setting before the file is opened
    before = kept["graph"] if _is_of(kept.get("graph"), file, nodes) else {}
    cut_anew = any(key in asked["graph"] and asked["graph"][key] != before.get(key) for key in _CUTS)
    found = recognize(file, nodes, {**({} if cut_anew else before), **asked["graph"]})
    if os.environ.get("RANK", "0") == "0" and not kept:
        for line in found.lines:
            print(line, file=sys.stderr)
        keys = ["separator", "header", "comment", "source_column", "target_column", "weight_column"]
        if "nodes" in found.graph:
            keys += ["nodes_separator", "nodes_header", "id_column", "label_column"]
        if found.lines:
            print(
                f"  wrong? --set graph.KEY=VALUE with {', '.join(keys[:-1])} or {keys[-1]}; the run keeps it in "
                f"{where}/config.yaml",
                file=sys.stderr,
            )
    if nodes is None and (table := before.get("nodes")) and found.graph.get("nodes") == table:
        print(
            f"nodes of {table}, as in {where}/config.yaml; to leave them out: --set graph.nodes=null", file=sys.stderr
        )
    return Config.load(None, settings, {**kept, "graph": found.graph})


def kept_values(folder: Path) -> dict[str, Any]:
    """The values in the config file of a run folder, which a user may have edited; empty if there is none."""
    from gscl_scale.config.read import read_yaml

    file = folder / "config.yaml"
    return read_yaml(file) if (folder / "run.json").exists() and file.exists() else {}


def keep_config(config: "Config", folder: Path, where: str) -> None:
    """Claim the run folder and write its config file, unless that says the same."""
    import yaml

    from gscl_scale.io.atomic import publish_file
    from gscl_scale.run.record import open_run

    run = open_run(config, folder)
    values = config.model_dump(mode="json", exclude_unset=True)
    if kept_values(folder) == values:
        return
    text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    with publish_file(run.config) as temporary:
        temporary.write_text(_HEAD.format(file=f"{where}/config.yaml", run=where) + text, encoding="utf-8")


def _is_of(graph: Any, file: Path, nodes: Path | None) -> bool:
    """Whether settings of a graph are of this file, or of tables in this folder."""
    if not isinstance(graph, dict):
        return False
    edges = str(graph.get("edges") or graph.get("path"))
    same = str(file) in (edges, str(Path(edges).parent))
    return same and (nodes is None or graph.get("nodes") == str(nodes))


def refuse_two_graphs(file: Path, config_file: Path) -> None:
    """Refuse a file of a graph beside a config file, which names a graph too."""
    raise UserError(
        f"{file} and --config {config_file} both name a graph; leave one out, and give settings with --set KEY=VALUE"
    )
