"""The work folder of a night, and what is read from it and from the current version."""

import shutil
from pathlib import Path
from typing import Literal, cast

from typing_extensions import TypedDict

from gscl_scale.config.config import Config
from gscl_scale.config.identity import deciding_settings
from gscl_scale.config.section import RESULTS
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import ColumnEncoding
from gscl_scale.io.checksum import fingerprint_of
from gscl_scale.io.validate import Count, schema_error
from gscl_scale.registry.versions import Changes
from gscl_scale.run.folder import Run
from gscl_scale.run.log import read_events
from gscl_scale.run.record import config_in
from gscl_scale.runtime.console import Console
from gscl_scale.shards.graph_diff import kind_of_ids
from gscl_scale.stages.finished import checkpoints_of
from gscl_scale.text import join_names
from gscl_scale.train.checkpoint import write_state

NOTE = "night.json"
_FOR_COLUMNS = ("feature_columns", "column_types", "missing", "missing_values", "encoding")  # settings of graph
_NOT_STORED = (NOTE, "tensorboard")


class _Since(TypedDict):
    """The line of a log with what precompute found changed."""

    stage: Literal["precompute"]
    event: Literal["since"]
    anchors_again: Count
    nodes_come: Count
    nodes_gone: Count
    rows_changed: Count


def take_over(work: Path, token: int) -> Path:
    """The work folder of a lease: that of the last night that did not come to its end, under a name of its own.

    Whoever worked there before, and is not dead but late, finds its folder gone.
    """
    mine = work / f"{token:08d}"
    left = sorted(path for path in work.glob("[0-9]*") if path.is_dir() and int(path.name) < token)
    if left and not mine.exists():
        left.pop().replace(mine)
    for path in left:
        shutil.rmtree(path, ignore_errors=True)
    mine.parent.mkdir(parents=True, exist_ok=True)
    return mine


def night_identities(config: Config, graph: Graph) -> list[str]:
    """The same for nights with the same graph and settings, wherever the graph comes from and however work runs.

    The second is that of earlier versions, which left the names of the feature columns out.
    """
    settings = deciding_settings(config, *(set(RESULTS) - {"graph"}))
    return [fingerprint_of([graph.fingerprint, settings, *columns]) for columns in (graph.feature_columns, [])]


def may_build_on(config: Config, base: Run) -> bool:
    """Whether the samples of an earlier run were made with the same settings."""
    earlier = config_in(base.folder)
    same = deciding_settings(earlier, "samples") == deciding_settings(config, "samples")
    return same and config.train.reads_samples and earlier.train.reads_samples


def samples_to_build_on(config: Config, run: Run, base: Run, console: Console) -> Path | None:
    """The folder of the earlier run whose samples tonight's build on; None where all anchors are sampled again."""
    if not may_build_on(config, base):
        return None
    was, now = (kind_of_ids(Graph.open(one.graph)) for one in (base, run))
    if was == now:
        return base.folder
    console.say(f"node ids are {now} now and were {was} in {base.folder.name}: all anchors are sampled again")
    return None


def encoding_before(config: Config, graph: Graph) -> list[ColumnEncoding]:
    """How an earlier graph reads the columns of a node table, if the settings for that are as they were."""
    now, before = config.graph.model_dump(mode="json"), graph.manifest.get("options", {})
    before = {"missing_values": [], **before}  # graphs of earlier versions lack it
    same = config.graph.source == "tables" and all(before.get(key) == now[key] for key in _FOR_COLUMNS)
    return graph.manifest.get("encoding", []) if same else []


def other_inputs(graph: Graph, before: Graph) -> str:
    """How the inputs of a graph differ from those that the weights of an earlier version have learnt; "" if in nothing.

    These are the feature columns, and edges with weights or without.
    """
    now, then = graph.feature_columns, before.feature_columns
    if others := graph.other_features(before.feature_blocks, then):
        new, gone = ([name for name in one if name not in set(other)] for one, other in ((now, then), (then, now)))
        names = [f"{what}: {join_names(some, 4)}" for what, some in (("new", new), ("gone", gone)) if some]
        is_known = names and now and then
        return f"feature columns differ ({'; '.join(names)})" if is_known else f"the graph has {others}"
    weighted, was = ("no weights" if one.edge_weights is None else "weights" for one in (graph, before))
    return "" if weighted == was else f"edges have {weighted} now and had {was} before"


def changes_since(run: Run, graph: Graph) -> Changes:
    """What precompute found changed since the current version, over all rounds; everything, where it began anew."""
    rounds = [cast(_Since, event) for event in read_events(run.log) if not schema_error(_Since, event)]
    if not rounds:
        return {"sampled_again": 1.0}
    last, share = rounds[-1], sum(line["anchors_again"] for line in rounds) / (len(rounds) * max(1, graph.num_nodes))
    return {
        "nodes_come": last["nodes_come"],
        "nodes_gone": last["nodes_gone"],
        "rows_changed": last["rows_changed"],
        "sampled_again": share,
    }


def write_start(run: Run, base: Run) -> None:
    """Write the weights of an earlier run, with which this one starts."""
    if not run.start.exists():
        state, _ = checkpoints_of(config_in(base.folder), base).chosen()
        write_state(run.start, state["model"])


def files_of(folder: Path) -> list[str]:
    """The files of a finished run that a version has."""
    names = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    return [
        name.as_posix()
        for name in names
        if not any(part.startswith(".") for part in name.parts) and name.parts[0] not in _NOT_STORED
    ]
