"""What is pinned: each case makes run folders of its own, by the command line, and returns their content."""

import fcntl
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.commands import cli
from tests.golden import adapters
from tests.golden.content import (
    curve,
    digest,
    embeddings_content,
    graph_content,
    metrics_content,
    number_columns,
    samples_content,
    schema_content,
    short,
)
from tests.golden.tables import DIRECTED, EDGES, UNDIRECTED, change_edges, write_tables

GRAPHS = {
    "digits": ["graph.source=digits", "graph.neighbours=6"],
    "synthetic": ["graph.source=synthetic", "graph.preset=tiny"],
    "table": UNDIRECTED,
    "directed table": DIRECTED,
}
BATCH_SIZE = {"digits": 360, "synthetic": 60, "table": 48, "directed table": 48}  # 5 steps per epoch
BASE = [
    "rings.hops=2", "rings.per_ring=8", "rings.width=8", "rings.beyond=16", "rings.rounds=2",
    "model.width=16", "model.projection=16", "model.feature_dropout=0", "train.epochs=4", "train.negatives=64",
    "evaluate.train_fractions=[0.2]", "evaluate.random_splits=1", "evaluate.initialisations=2",
    "evaluate.probe_epochs=20", "evaluate.probe_weight_decay=[0.0]", "runtime.workers=1", "runtime.device=cpu",
]  # fmt: skip
SHORT_LISTS = ["rings.width=4", "rings.per_ring=6", "rings.beyond=12"]  # the lists of the sketch do not hold enough
SAMPLES = {
    "digits, exact": ("digits", ["rings.engine=exact"]),
    "digits, sketch, pagerank": ("digits", ["rings.engine=sketch", "rings.sampling=pagerank"]),
    "synthetic, exact": ("synthetic", ["rings.engine=exact"]),
    "synthetic, exact, pagerank": ("synthetic", ["rings.engine=exact", "rings.sampling=pagerank"]),
    "synthetic, exact, short lists": ("synthetic", ["rings.engine=exact", *SHORT_LISTS]),
    "synthetic, sketch, short lists": ("synthetic", ["rings.engine=sketch", *SHORT_LISTS]),
    "synthetic, sketch, 3 hops, several parts": (
        "synthetic",
        ["rings.engine=sketch", "rings.hops=3", "rings.part_anchors=128", "rings.seed=7"],
    ),
    "synthetic, ratio": ("synthetic", ["rings.per_ring=ratio:0.2"]),
    "synthetic, all": ("synthetic", ["rings.per_ring=all", "rings.rounds=1"]),
    "synthetic, independent": ("synthetic", ["rings.sharing=independent", "rings.rounds=1"]),
    "table, auto": ("table", []),
    "directed table, exact": ("directed table", ["rings.engine=exact"]),
    "directed table, sketch": ("directed table", ["rings.engine=sketch"]),
}
BATCHES = {
    "all neighbors, 2 layers": ["model.layers=2", "train.batch_size=6"],
    "sampled neighbors": ["model.layers=2", "model.propagation=sampled", "model.fanout=[3, 2]"],
    "random members, scaled to rings": ["train.members=random", "rings.per_ring=3", "loss.weighting=size"],
    "stored members, micro-batches": ["train.members=stored", "train.accumulate=2", "train.seed=3"],
    "held-out nodes": ["train.held_out=0.2", "rings.sampling=pagerank"],
}
WHOLE_GRAPH = "train.epochs=20"  # one step per epoch
CURVES = {
    "gscl, listwise": [],
    "gscl, pairwise": ["loss.ranking=pairwise"],
    "gscl, positives out, gate, temperatures": [
        "loss.positives=out", "loss.gate=0.6", "loss.temperature=0.3", "loss.temperature_step=0.2",
    ],
    "gscl, hop zero, dropouts": [
        "loss.hop_zero=0.5", "model.feature_dropout=0.3", "model.message_dropout=0.2", "model.hidden_dropout=0.1",
        "model.layers=2",
    ],
    "gscl, scaled to rings": ["loss.weighting=size"],
    "gscl, random members": ["train.members=random", "rings.per_ring=3"],
    "gscl, stored members": ["train.members=stored", "rings.per_ring=3"],
    "gscl, held-out nodes, clip, decay": ["train.held_out=0.2", "train.clip=0.1", "train.weight_decay=0.01"],
    "gscl, micro-batches, no projection": ["train.accumulate=3", "model.projection=0", "train.seed=3"],
    "gscl, gcn, mean without loops": [
        "model.normalisation=mean", "model.self_loops=false", "model.bias=false", "model.activation=rrelu",
        "model.feature_scaling=standard",
    ],
    "gscl, gcn, sampled": ["model.layers=2", "model.propagation=sampled", "model.fanout=[3, 2]"],
    "gscl, sage": ["model.encoder=sage", "model.layers=2"],
    "gscl, sage, sampled": ["model.encoder=sage", "model.layers=2", "model.propagation=sampled", "model.fanout=[3]"],
    "gscl, gat": ["model.encoder=gat", "model.layers=2"],
    "gscl, gat, sampled": ["model.encoder=gat", "model.layers=2", "model.propagation=sampled", "model.fanout=[3]"],
    "supervised": ["train.objective=supervised", WHOLE_GRAPH],
    "supervised gat": ["train.objective=supervised", "model.encoder=gat", "model.layers=2", WHOLE_GRAPH],
    "gae": ["train.objective=gae", WHOLE_GRAPH],
    "gae, drawn pairs": ["train.objective=gae", "baseline.negatives=500", WHOLE_GRAPH],
    "vgae": ["train.objective=vgae", WHOLE_GRAPH],
    "dgi": ["train.objective=dgi", WHOLE_GRAPH],
    "mvgrl": ["train.objective=mvgrl", WHOLE_GRAPH],
    "gmi": ["train.objective=gmi", WHOLE_GRAPH],
    "grace": ["train.objective=grace", WHOLE_GRAPH],
    "grace, drawn negatives": ["train.objective=grace", "baseline.negatives=50", WHOLE_GRAPH],
    "gca": ["train.objective=gca", WHOLE_GRAPH],
    "bgrl": ["train.objective=bgrl", WHOLE_GRAPH],
    "afgrl": ["train.objective=afgrl", WHOLE_GRAPH],
    "af-gcl": ["train.objective=af-gcl", "baseline.negatives=20", WHOLE_GRAPH],
    "autossl": ["train.objective=autossl", WHOLE_GRAPH],
    "cca-ssg, batch norm": ["train.objective=cca-ssg", "model.norm=batch", WHOLE_GRAPH],
    "g-bt": ["train.objective=g-bt", WHOLE_GRAPH],
    "graphmae": ["train.objective=graphmae", WHOLE_GRAPH],
    "graphmae2": ["train.objective=graphmae2", WHOLE_GRAPH],
    "s2gae": ["train.objective=s2gae", "model.layers=2", "model.hidden_dropout=0.5", WHOLE_GRAPH],
    "sugrl": ["train.objective=sugrl", WHOLE_GRAPH],
    "costa": ["train.objective=costa", WHOLE_GRAPH],
    "graphacl": ["train.objective=graphacl", WHOLE_GRAPH],
    "blnn": ["train.objective=blnn", WHOLE_GRAPH],
}  # fmt: skip


def do(verb: str, folder: Path, run: str, settings: list[str], *more: str) -> str:
    """Run a verb on a run folder; it must succeed. What it prints."""
    ended = cli(verb, "--run", run, *as_options(settings), *more, cwd=folder)
    if ended.returncode:
        reason = ended.stderr.strip().rpartition("\n")[2]
        raise AssertionError(f"gscl-scale {verb} ended with exit code {ended.returncode}: {reason}")
    return ended.stdout


def as_options(settings: list[str]) -> list[str]:
    """Settings as `--set` options; a later one of the same key wins."""
    return [option for setting in settings for option in ("--set", setting)]


def settings_of(graph: str, folder: Path) -> list[str]:
    """Settings of a run on one of the graphs, whose tables are written if it has some."""
    if "table" in graph:
        write_tables(folder)
    return [*GRAPHS[graph], *BASE, f"train.batch_size={BATCH_SIZE[graph]}"]


def graph_case(graph: str, folder: Path) -> dict[str, Any]:
    """The graph folder."""
    do("ingest", folder, "run", settings_of(graph, folder))
    content = graph_content(folder / "run/graph")
    if graph == "directed table":  # made from the structure with square roots and logarithms
        content["features.arrow"] = number_columns(folder / "run/graph/features.arrow")
    return content


def samples_case(graph: str, changes: list[str], folder: Path) -> dict[str, Any]:
    """The samples folder."""
    do("precompute", folder, "run", [*settings_of(graph, folder), *changes])
    return samples_content(folder / "run/samples")


def since_case(graph: str, folder: Path) -> dict[str, Any]:
    """Samples that build on those of an earlier run, after a few changes of the edges."""
    settings = settings_of(graph, folder)
    do("precompute", folder, "before", settings)
    change_edges(folder)
    do("precompute", folder, "after", settings, "--since", "before")
    found = [event for event in _events(folder / "after") if event["event"] == "since"]
    for event in found:
        for key in ("time", "run", "stage", "event", "earlier"):
            del event[key]
    return {
        "changes": {f"round {event.pop('round')}": event for event in found},
        **samples_content(folder / "after/samples"),
    }


def batches_case(changes: list[str], folder: Path) -> dict[str, Any]:
    """The batches of all epochs in their order."""
    do("precompute", folder, "run", [*settings_of("synthetic", folder), *changes])
    epochs: dict[int, list[Any]] = {}
    for epoch, arrays in adapters.batches(folder / "run"):
        epochs.setdefault(epoch, []).append(arrays)
    return {f"epoch {epoch}": _epoch(made) for epoch, made in epochs.items()}


def _epoch(made: list[dict[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {"batches": len(made), "first anchors": made[0]["anchors"][0][:8].tolist()}
    for name in made[0]:
        arrays = [array for one in made for array in one[name]]
        if name in ("message weights", "log weights"):
            content[name] = short([float(array.sum(dtype=np.float64)) for array in arrays])
        else:
            content[name] = digest(arrays)
    return content


def curve_case(changes: list[str], folder: Path) -> dict[str, Any]:
    """The losses of 20 steps."""
    settings = [*settings_of("synthetic", folder), *changes]
    do("precompute", folder, "run", settings)
    do("train", folder, "run", settings)
    return curve(folder / "run/log.jsonl")


def story_case(graph: str, folder: Path) -> dict[str, Any]:
    """All stages one after the other, without the page, which takes long."""
    settings = settings_of(graph, folder)
    for verb in ("precompute", "train", "embed", "evaluate"):
        do(verb, folder, "run", settings)
    states = json.loads(do("status", folder, "run", settings, "--json"))
    events = [f"{event['stage']} {event['event']}" for event in _events(folder / "run")]
    return {
        "status": [f"{state['stage']} {state['state']}" for state in states],
        "events": [event for event in events if event != "train step"],
        "files": sorted(
            str(path.relative_to(folder / "run")) for path in (folder / "run").rglob("*") if path.is_file()
        ),
        "training": curve(folder / "run/log.jsonl"),
        "embeddings": embeddings_content(folder / "run/embeddings/embeddings.parquet"),
        "metrics.json": metrics_content(folder / "run/metrics.json"),
    }


def _events(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def schema_case(folder: Path) -> dict[str, Any]:
    """Keys of the configuration with type, default and limits; and what two keys together forbid."""
    schema = json.loads(cli("config", "--schema", "--json", cwd=folder).stdout)
    tried = {text: cli("config", *as_options(text.split()), cwd=folder).returncode for text in TOGETHER}
    return {"keys": schema_content(schema), "exit code of config": tried}


TOGETHER = [
    "rings.per_ring=0", "rings.per_ring=ratio:1", "rings.per_ring=ratio:1.5", "rings.per_ring=some",
    "rings.rounds=epoch", "rings.rounds=0", "rings.engine=sketch rings.per_ring=all",
    "rings.engine=sketch rings.sharing=independent", "rings.part_anchors=100000000 rings.width=64",
    "model.layers=2 model.fanout=[5,5,5]", "model.encoder=sage model.self_loops=false",
    "model.encoder=gat model.message_dropout=0.1", "model.propagation=sampled rings.sharing=independent",
    "model.propagation=sampled train.objective=dgi", "model.norm=batch", "model.norm=batch train.objective=dgi",
    "train.patience=2", "train.patience=2 train.validate_every=1", "evaluate.train_fractions=[0.95]",
    "runtime.train_workers=2-4", "runtime.train_workers=4-2", "train.epochs=true", "loss.gate=.nan",
    "graph.source=tables", "graph.source=synthetic graph.preset=huge", "graph.neighbours=5 graph.preset=tiny",
]  # fmt: skip


def verbs_case(folder: Path) -> dict[str, Any]:
    """Verbs with the names of their arguments and options."""
    return adapters.verbs()


def codes_case(folder: Path) -> dict[str, Any]:
    """Exit codes: 0 done, 1 the work failed, 2 bad input, 3 refused by the gate, 4 somebody else works there."""
    settings = as_options(settings_of("table", folder))
    codes: dict[str, int] = {}

    def tell(what: str, *arguments: str) -> None:
        codes[what] = cli(*arguments, cwd=folder).returncode

    (folder / "odd.yaml").write_text("train: [1, 2")
    (folder / "taken").mkdir()
    (folder / "taken/mine.txt").write_text("mine")
    tell("version", "--version")
    tell("help", "--help")
    tell("unknown verb", "walk")
    tell("unknown flag", "run", "--fast")
    tell("unknown key", "run", *settings, "--set", "train.epoch=3")
    tell("bad value", "run", *settings, "--set", "train.epochs=-3")
    tell("setting without =", "run", *settings, "--set", "train.epochs")
    tell("missing config file", "run", "--config", "nowhere.yaml")
    tell("config file is not YAML", "run", "--config", "odd.yaml")
    tell("missing table", "ingest", *settings, "--set", "graph.edges=nowhere.csv")
    tell("run folder holds something else", "ingest", *settings, "--run", "taken")
    tell("success", "precompute", *settings, "--run", "done")
    tell("success again", "precompute", *settings, "--run", "done")
    tell("no checkpoint to embed with", "embed", *settings, "--run", "done")
    tell("other settings for a run", "precompute", *settings, "--run", "done", "--set", "rings.width=9")
    tell(
        "samples of other settings", "precompute", *settings, "--run", "b", "--set", "rings.width=9", "--since", "done"
    )
    tell("training diverged", "train", *settings, "--run", "done", "--set", "train.learning_rate=1e30")
    tell("no such method", "compare", *settings, "--run", "c", "--methods", "magic")
    tell("no such table of results", "reproduce", "magic")
    tell("neighbors without embeddings", "neighbors", "done", "--id", "a")
    tell("one run to compare", "report", "done")
    tell("refused by the gate", "retrain", *settings, "--registry", "registry", "--set", "gate.ranking_least=1")
    tell("rollback with nothing to go back to", "registry", "rollback", "--registry", "registry")
    with (folder / "done/.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tell("run folder in use", "train", *settings, "--run", "done")
    part = folder / "done/samples/round-001/part-00000.arrow"
    whole = part.read_bytes()
    part.write_bytes(whole[:-200])
    tell("damaged samples", "train", *settings, "--run", "done")
    part.write_bytes(whole)
    (folder / "done/samples/manifest.json").unlink()
    tell("unfinished samples", "train", *settings, "--run", "done")
    with (folder / EDGES).open("a") as file:
        file.write("a,b\n")
    tell("changed table", "precompute", *settings, "--run", "done")
    (folder / "done/graph/manifest.json").write_text('{"format": 1}')
    tell("damaged manifest of the graph", "status", "--run", "done")
    return codes


def _named(kind: str, case: Callable[..., dict[str, Any]], table: dict[str, tuple[Any, ...]]):
    """A case for each row of a table."""
    return {f"{kind}: {name}": lambda folder, row=row: case(*row, folder) for name, row in table.items()}


CASES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "schema of the config": schema_case,
    "verbs": verbs_case,
    "exit codes": codes_case,
    **_named("graph", graph_case, {name: (name,) for name in GRAPHS}),
    **_named("samples", samples_case, SAMPLES),
    **_named("samples since", since_case, {name: (name,) for name in ("table", "directed table")}),
    **_named("batches", batches_case, {name: (changes,) for name, changes in BATCHES.items()}),
    **_named("curve", curve_case, {name: (changes,) for name, changes in CURVES.items()}),
    **_named("story", story_case, {name: (name,) for name in ("digits", "synthetic", "table")}),
}
