"""Every reader of the program, what it reads, and a call of it; the current folder holds the input."""

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from random import Random
from unittest import mock
from urllib.error import URLError

import numpy as np

from gscl_scale.batches.stream import BatchStream
from gscl_scale.cli import main as cli
from gscl_scale.cli import stages
from gscl_scale.config.config import Config
from gscl_scale.embed.rotation import read_rotation
from gscl_scale.embed.scratch import Scratch
from gscl_scale.embed.store import Embeddings, fingerprint_in, is_complete, read_embeddings, take_rows
from gscl_scale.errors import GsclError
from gscl_scale.evaluate.graph_statistics import statistics
from gscl_scale.evaluate.schema import read_metrics
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.estimate import read_if_it_fits
from gscl_scale.graph.graph import Graph
from gscl_scale.io.json import read_json_lines
from gscl_scale.model.model import build_model
from gscl_scale.neighbors.index import open_index
from gscl_scale.registry.versions import Registry
from gscl_scale.report.node_map import load_map
from gscl_scale.retrain.gate import figures_of
from gscl_scale.retrain.night import Outcome
from gscl_scale.retrain.notify import write_metrics
from gscl_scale.retrain.work_folder import changes_since
from gscl_scale.run import log, record
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.runner import start_runner
from gscl_scale.runtime.settings import RunnerSettings
from gscl_scale.shards.precompute import is_complete as shards_is_complete
from gscl_scale.shards.precompute import precompute
from gscl_scale.shards.reader import Samples
from gscl_scale.stages import train as training
from gscl_scale.stages.evaluate import stats
from gscl_scale.stages.ingest import ingest
from gscl_scale.stages.report import report
from gscl_scale.stages.status import status
from gscl_scale.storage.mirror import Mirror
from gscl_scale.storage.stores import LocalStore
from gscl_scale.storage.transfer import fetch_folder
from gscl_scale.studies.reproduce.reproduce import reproduce
from gscl_scale.studies.tune.records import Book, claim_search
from gscl_scale.studies.tune.space import read_space
from gscl_scale.train.checkpoint import Checkpoints, load_weights
from gscl_scale.train.loop import Trainer
from tests.hostile.corpus import CSV, RUN, TABLES
from tests.hostile.mutate.tables import BOMBS
from tests.hostile.mutate.text import any_json, any_yaml

QUIET = Console(quiet=True)


class UntoldError(Exception):
    """A command ended in another way than with 0, or with one sentence and its exit code."""


@dataclass(frozen=True)
class Reader:
    """A reader.

    weight    how often it comes, beside the others
    needs     what of the corpus is copied for it
    targets   patterns of the files that are changed
    read      the call; the random numbers choose among its variants
    taken     events that are no failure: pickles of arrays are opened, and nothing else is called by them
    """

    name: str
    weight: int
    needs: tuple[str, ...]
    targets: tuple[str, ...]
    read: Callable[[Random], object]
    taken: tuple[str, ...] = ()


@cache
def _config(kind: str = "run") -> Config:
    return Config.parse({"run": RUN, "tables": TABLES, "csv": CSV}[kind])


def _ingest(config: Config) -> None:
    write_graph(read_if_it_fits(config.graph, Path("new"), lambda text: None), config.graph, Path("new"))


_SPARSE = Config.parse({"graph": {"source": "npz", "path": "sparse.npz"}})


def _data_set(source: str, name: str) -> None:
    """Read a data set of which nothing can be downloaded."""
    refuse = URLError("no network")
    with (
        mock.patch("torch_geometric.io.fs.cp", side_effect=refuse),
        mock.patch("urllib.request.urlopen", side_effect=refuse),
    ):
        _ingest(Config.parse({"graph": {"source": source, "dataset": name, "path": "data"}}))


def _graph(rng: Random) -> None:
    graph = Graph.open(Path("run/graph"))
    graph.identities()
    NormalisedAdjacency.of(graph, "gcn")
    if rng.random() < 0.5:
        statistics(graph, anchors=5)
    else:
        _precompute(Path("new"))


def _precompute(folder: Path, since: tuple[Path, Path] | None = None, graph: str = "run/graph") -> None:
    with start_runner(RunnerSettings(workers=1)) as runner:
        precompute(Path(graph), folder, _config().rings, 2, runner, QUIET, since)


def _samples(rng: Random) -> None:
    config, folder = _config(), Path("run/samples")
    graph = Graph.open(Path("run/graph"))
    choice = rng.random()
    if choice < 0.1:
        _precompute(folder)
    elif choice < 0.2:
        _precompute(Path("new"), (Path("run/graph"), folder))
    shards_is_complete(folder, graph, config.rings, 2)
    samples = Samples.open(folder)
    samples.identity()
    stream = BatchStream(samples, graph.num_nodes, config.rings, config.train, config.loss)
    for step in (0, stream.schedule.steps_per_epoch):
        stream.batch(step)
    samples.round(0).take(np.arange(graph.num_nodes)[::-1].copy())


def _checkpoint(rng: Random) -> None:
    config, run = _config(), Run.at(Path("run"))
    checkpoints = Checkpoints(run.checkpoints, FINGERPRINT[0])
    checkpoints.is_finished()
    model = build_model(config.model, 6, config.train.seed)
    with contextlib.suppress(GsclError):
        Trainer(model, config.train).restore(checkpoints, QUIET)
    state, _ = checkpoints.chosen()
    load_weights(model, state.get("model"), run.checkpoints)


def _start(rng: Random) -> None:
    with contextlib.suppress(FileNotFoundError):
        Path("start.pt").rename("run/start.pt")
    training.load_start(build_model(_config().model, 6, 0), Run.at(Path("run")))


def _yaml(rng: Random) -> None:
    config = Config.load(Path("run.yaml"))
    config.dump()
    if rng.random() < 0.1:
        read_space(Path("space.yaml"), _config())


def _settings(rng: Random) -> None:
    lines = rng.choice((any_yaml(rng, b"train: {epochs: 3}"), any_json(rng, b'{"epochs": 3}'), rng.randbytes(9)))
    text = lines.decode("utf-8", "replace")
    key = rng.choice(("train.epochs", "graph.path", "runtime.workers", "graph.feature_columns", "x", "..", "=", ""))
    Config.load(None, [rng.choice((f"{key}={text}", text, f"{text}={text}", f"graph.source=npz{text}"))])


def _registry(rng: Random) -> None:
    registry = Registry("registry")
    state = registry.ledger.newest()
    [registry.ledger.at(number) for number in registry.ledger.numbers()]
    for name in state.kept():
        _ = registry.version(name).files
        fetch_folder(registry.store, f"versions/{name}", Path("fetched"))
    registry.current()
    registry.point()


def _mirror(rng: Random) -> None:
    Path("store").mkdir()
    store = LocalStore(Path("store"))
    Path("copy").mkdir()
    Path("copy/a.json").write_text("{}")
    Path("copy/log.jsonl").write_text("x")
    Mirror(store, Path("copy")).push()
    index = Path("store/.pushes/00000001.json")
    index.write_bytes(any_json(rng, index.read_bytes()))
    Mirror(store, Path("other")).pull(rng.choice((lambda *_: True, lambda _, size: size < 1000)))


def _run_folder(rng: Random) -> None:
    run = Run.at(Path("run"))
    status(run.folder)
    log.read_curve(run.log)
    read_json_lines(run.log)
    graph = Graph.open(run.graph)
    changes_since(run, graph)
    if rng.random() < 0.4:
        config = record.open_run(_config(), run.folder) and _config()
        ingest(config, run, QUIET)
        stats(run)
        report(config, run, QUIET)
    elif rng.random() < 0.5:
        metrics = read_metrics(run.metrics)
        stages._print_metrics(metrics)
        figures_of(metrics, 1.0)


def _embeddings(rng: Random) -> None:
    run = Run.at(Path("run"))
    is_complete(run.embeddings, "x", True)
    fingerprint_in(run.embeddings)
    read_embeddings(run.embeddings)
    take_rows(run.embeddings, np.array([0, 3, 39]))
    for _ in Embeddings(run.embeddings).blocks():
        pass
    open_index(Embeddings(run.embeddings), run.embeddings / "index", QUIET)


def _map(rng: Random) -> None:
    load_map(Path("map"), np.eye(40, 4, dtype=np.float32), "made", 0)
    read_rotation(Path("rotation.npy"))


def _scratch(rng: Random) -> None:
    scratch = Scratch(Path("scratch"), "f", 40, {"layer": 4})
    scratch.missing("layer")
    scratch.map("layer").sum()


def _search(rng: Random) -> None:
    Book(Path("search")).ended()
    claim_search(Path("search"), _config(), {"model.width": [8, 16]})


_COMMANDS = """
config --config run.yaml
config --config run.yaml --json
ingest --config run.yaml --run new
ingest --config tables.yaml --run new
ingest --config csv.yaml --run new
status --run run
status --run run --json
stats --config run.yaml --run run --json
precompute --config run.yaml --run run
precompute --config run.yaml --run new --since run
train --config run.yaml --run run
embed --config run.yaml --run run
embed --config run.yaml --run run --graph cut/graph --out out
embed --config run.yaml --run run --out vectors.npy
evaluate --config run.yaml --run run
report --config run.yaml --run run
report run run --out both.html
run --config run.yaml --run run
neighbors run --id n3
neighbors run --id n3 --index
neighbors run --all --out near.parquet
registry list --registry registry
registry list --registry registry --json
registry show --registry registry
registry promote v000001 --registry registry
registry rollback --registry registry
registry pin v000001 --registry registry
registry unpin --registry registry
retrain --config run.yaml --registry registry --set retrain.lease_s=1
reproduce main --page --configs papers --out results
""".strip().splitlines()


def _command(rng: Random) -> None:
    """A whole command in this process: exit code 0, or one sentence and an exit code of its own."""
    command, code, told = rng.choice(_COMMANDS), 0, StringIO()
    with mock.patch("sys.argv", ["gscl-scale", *command.split()]):
        try:
            with contextlib.redirect_stdout(StringIO()), contextlib.redirect_stderr(told):
                cli.main()
        except SystemExit as leaving:
            code = leaving.code or 0
    last = "".join(told.getvalue().splitlines()[-1:])
    sentence = last.startswith("gscl-scale: ") and len(last) < LONGEST
    if code not in range(5) or "Traceback" in told.getvalue() or (code in (1, 2, 4) and not sentence):
        raise UntoldError(f"{command} ended with {code} and: {told.getvalue()[-2000:]}")
    if code:
        raise GsclError(last)


LONGEST = 1200  # letters of a sentence

_JSON = ("run/run.json", "run/metrics.json", "run/statistics.json", "run/log.jsonl", "run/*/manifest.json")
READERS = {
    reader.name: reader
    for reader in (
        Reader("npz", 10, ("graph.npz",), ("graph.npz",), lambda rng: _ingest(_config())),
        Reader("npz of sparse features", 4, ("sparse.npz",), ("sparse.npz",), lambda rng: _ingest(_SPARSE)),
        Reader(
            "Parquet tables", 14, ("edges.parquet", "nodes.parquet"), ("*.parquet",),
            lambda rng: _ingest(_config("tables")),
        ),
        Reader("CSV tables", 12, ("edges.csv", "nodes.csv"), ("*.csv",), lambda rng: _ingest(_config("csv"))),
        Reader(
            "raw files of ogb", 3, ("data/ogbn_arxiv",), ("data/**/*.gz",), lambda rng: _data_set("ogb", "ogbn-arxiv"),
        ),
        Reader(
            "raw files of torch-geometric", 3, ("data/Cora",), ("data/Cora/raw/*",),
            lambda rng: _data_set("pyg", "Planetoid/Cora"), ("pickle.find_class",),
        ),
        Reader("graph folder", 14, ("run/graph",), ("run/graph/*",), _graph),
        Reader("samples folder", 14, ("run/graph", "run/samples"), ("run/samples/**/*",), _samples),
        Reader("samples cut off", 3, ("cut",), ("cut/samples/progress.jsonl", "cut/samples/**/*"),
            lambda rng: _precompute(Path("cut/samples"), graph="cut/graph")),
        Reader("checkpoints", 12, ("run/checkpoints",), ("run/checkpoints/*",), _checkpoint),
        Reader("weights to start with", 5, ("run/graph", "start.pt"), ("start.pt",), _start),
        Reader("config file", 14, ("run.yaml", "space.yaml"), ("run.yaml", "run.yaml", "space.yaml"), _yaml),
        Reader("--set", 5, ("run.yaml",), (), _settings),
        Reader(
            "registry", 12, ("registry",),
            ("registry/ledger/*", "registry/versions/*/index.json", "registry/*.json"), _registry,
        ),
        Reader("index of a copy", 4, ("run.yaml",), (), _mirror),
        Reader("run folder", 14, ("run",), _JSON, _run_folder),
        Reader("embeddings", 8, ("run/embeddings", "rotation.npy"),
            ("run/embeddings/*", "run/embeddings/index/*", "rotation.npy"), _embeddings),
        Reader("map", 3, ("map",), ("map/*",), _map),
        Reader("scratch of embeddings", 4, ("scratch",), ("scratch/*",), _scratch),
        Reader("search", 4, ("search",), ("search/search.json", "search/trials/*/trial.json"), _search),
        Reader("cells", 3, ("results", "papers"), ("results/cells/*", "papers/*"),
            lambda rng: reproduce("main", Path("papers"), Path("results"), [], [], 2, QUIET, page_only=True)),
        Reader("metrics of nights", 1, ("night.prom",), ("night.prom",),
            lambda rng: write_metrics(Path("night.prom"), Outcome("registry", "failed", 1.0))),
        Reader(
            "whole commands", 10,
            ("run", "run.yaml", "graph.npz", "registry", "results", "papers", "cut", "edges.csv", "nodes.csv",
             "csv.yaml", "tables.yaml", "edges.parquet", "nodes.parquet"),
            ("run.yaml", "*.npz", "*.csv", "*.parquet", "run/**/*", "registry/**/*", "cut/graph/*", "results/cells/*"),
            _command,
        ),
    )
}  # fmt: skip
FINGERPRINT = [""]  # of the training of the valid inputs


def use(corpus: Path) -> None:
    """Take what has to be known of the valid inputs from a folder."""
    FINGERPRINT[0] = json.loads((corpus / "run/checkpoints/manifest.json").read_text())["fingerprint"]
    BOMBS[:] = sorted((corpus / "bombs").iterdir())
