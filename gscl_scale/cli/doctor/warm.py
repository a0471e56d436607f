"""`doctor --warm`: compile the kernels of ordinary runs, by such runs on small graphs."""

import tempfile
import time
from pathlib import Path

from gscl_scale import pipeline, seeding
from gscl_scale.cli.doctor.check import Finding
from gscl_scale.config.config import Config
from gscl_scale.run.folder import Run
from gscl_scale.run.record import open_run
from gscl_scale.runtime.console import Console
from gscl_scale.stages.evaluate import stats
from gscl_scale.stages.ingest import ingest
from gscl_scale.stages.precompute import precompute
from gscl_scale.studies.compare import compare

_SHORT = (
    "rings.rounds=1", "model.width=8", "model.projection=8", "train.epochs=1", "evaluate.initialisations=1",
    "evaluate.probe_epochs=1", "evaluate.random_splits=1",
)  # fmt: skip
_TINY = ("graph.source=synthetic", "graph.preset=tiny", "rings.per_ring=4", "rings.beyond=8", "rings.width=16")
_TABLES = ("graph.source=tables", "graph.edges={folder}/edges.csv", "graph.weight_column=weight")
_DROPOUT = ("model.feature_dropout=0.1", "model.hidden_dropout=0.1", "model.message_dropout=0.1")
_TILES = ("runtime.precompute_memory_gb=0.1", "runtime.embed_tiles=true")
_SAMPLED = ("model.propagation=sampled", "model.layers=2", *_DROPOUT)
_RUNS = (
    ("graph.source=digits",),
    (*_TINY, "rings.engine=sketch", *_SAMPLED, "evaluate.held_out_edges=0.1"),
    (*_TINY, "rings.engine=sketch", "rings.hops=3", "model.layers=2", *_TILES),
    (*_TINY, "rings.sharing=independent", "model.encoder=gat"),
    (*_TINY, "rings.sampling=pagerank", "train.members=random", "model.layers=2"),
    (*_TINY, "train.objective=grace", *_DROPOUT),
    (*_TINY, "graph.preset=small", "rings.engine=exact", "rings.hops=3", "train.epochs=1"),
    ("graph.source=tables", "graph.edges={folder}/numbers.csv"),
    (*_TABLES, "graph.nodes={folder}/nodes.csv", "rings.engine=exact", *_SAMPLED),
    (*_TABLES, "graph.undirected=false", "rings.engine=sketch"),
)
_PEERS = ("deepwalk", "node2vec", "cleora")
_NODES = 300


def compile_kernels() -> Finding:
    """Run what ordinary commands run once, in a folder that is deleted."""
    began, quiet = time.monotonic(), Console(quiet=True)
    with tempfile.TemporaryDirectory(prefix="gscl-scale-warm-") as place:
        folder = Path(place)
        _write_tables(folder)
        for number, settings in enumerate(_RUNS):
            pipeline.run(_config(folder, *settings), folder / f"run-{number}", quiet, pages=False)
        stats(Run.at(folder / "run-0"))
        compare(_config(folder, *_RUNS[-2]), folder / "compared", _PEERS, quiet)
        for engine in ("exact", "sketch"):
            _sample_changes(folder, engine, quiet)
    return Finding("kernels", "ok", f"those of ordinary runs are compiled now, in {time.monotonic() - began:.0f} s")


def _config(folder: Path, *settings: str) -> Config:
    return Config.load(None, [setting.format(folder=folder) for setting in (*_SHORT, *settings)])


def _sample_changes(folder: Path, engine: str, console: Console) -> None:
    """Sample the rings of a graph, and again since then after a few of its edges are gone."""
    runs: list[Run] = []
    for edges in ("edges", "fewer"):
        config = _config(folder, *_TABLES, f"graph.edges={{folder}}/{edges}.csv", f"rings.engine={engine}")
        run = open_run(config, folder / f"{edges}-{engine}")
        ingest(config, run, console)
        precompute(config, run, console, since=runs[0].folder if runs else None)
        runs.append(run)


def _write_tables(folder: Path) -> None:
    """Edges with weights and repeats between nodes whose ids are text, the same without the last, and nodes."""
    ends = seeding.generator("warm").integers(0, _NODES, (5 * _NODES, 2))
    lines = [f"node-{a},node-{b},{1 + a % 3}" for a, b in [*ends, *ends[:9]]]
    for name, kept in (("edges", lines), ("fewer", lines[:-20])):
        (folder / f"{name}.csv").write_text("\n".join(["source,target,weight", *kept]), encoding="utf-8")
    numbers = ["source,target", *(f"{a},{b}" for a, b in ends)]
    (folder / "numbers.csv").write_text("\n".join(numbers), encoding="utf-8")
    rows = [f"node-{v},{'abc'[v % 3]},{v % 7},{'xyz'[v % 3]}" for v in range(_NODES)]
    (folder / "nodes.csv").write_text("\n".join(["id,label,size,kind", *rows]), encoding="utf-8")
