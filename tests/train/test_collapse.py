"""Embeddings that collapse: told at the first validation with the setting that cures them, which then does."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gscl_scale.config.config import Config
from gscl_scale.errors import DivergedError
from gscl_scale.evaluate.collapse import flaw_of_spread, is_flat
from gscl_scale.evaluate.schema import read_metrics
from gscl_scale.evaluate.summary import warnings_of
from gscl_scale.io.json import read_json_lines
from gscl_scale.pipeline import run
from gscl_scale.runtime.console import Console
from gscl_scale.stages.collapse import cure_of
from tests.graphs import make_graph

NODES, WIDTH = 400, 64


@pytest.fixture
def customers(tmp_path):
    """Customers in groups: edges, two columns about them that tell nothing, and a wide table with a huge column."""
    draw = np.random.default_rng(0)
    left = draw.integers(0, NODES, 2000)
    right = left // 20 * 20 + draw.integers(0, 20, 2000)
    pq.write_table(pa.table({"source": left, "target": right}), tmp_path / "edges.parquet")
    few = {"age": draw.integers(18, 90, NODES), "turnover": draw.lognormal(8, 2, NODES)}
    pq.write_table(pa.table({"id": np.arange(NODES), **few}), tmp_path / "few.parquet")
    columns = draw.normal(size=(20, 80))[np.arange(NODES) // 20] + draw.normal(size=(NODES, 80))
    columns[:, 0] *= 1e5
    wide = {f"f{number}": np.abs(column) for number, column in enumerate(columns.T)}
    pq.write_table(pa.table({"id": np.arange(NODES), **wide}), tmp_path / "wide.parquet")
    return tmp_path


def settings(folder, table, *changed):
    return Config.load(None, [
        "graph.source=tables", f"graph.edges={folder}/edges.parquet", f"graph.nodes={folder}/{table}.parquet",
        "graph.structural_features=32", "rings.hops=2", "rings.width=64", "rings.rounds=1", f"model.width={WIDTH}",
        "model.projection=32", "model.skip=none", "train.epochs=10", "train.batch_size=100", "train.negatives=50",
        "train.validate_every=5", "evaluate.held_out_edges=0.2", "runtime.workers=1", "runtime.device=cpu", *changed,
    ])  # fmt: skip


def told(config, folder, capsys):
    """The metrics of a run, what it printed of a collapse, and the events of it between those of validations."""
    capsys.readouterr()
    run(config, folder, Console(), pages=False)
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Warning: at the first")]
    events = [one for one in read_json_lines(folder / "log.jsonl") if one["event"] in ("collapsed", "validation")]
    return read_metrics(folder / "metrics.json"), lines, [one["event"] for one in events]


@pytest.mark.parametrize(
    ("table", "changed", "cure", "reason"),
    [
        ("few", ["graph.structure=none"], "graph.structure=always", "2 columns that tell few nodes apart"),
        (
            "wide",
            ["graph.structure=none"],
            "model.feature_scaling=standard",
            "the encoder reads features that hardly differ between nodes",
        ),
    ],
)
def test_the_cure_that_is_named_at_the_first_validation_cures(customers, capsys, table, changed, cure, reason):
    metrics, lines, events = told(settings(customers, table, *changed), customers / "flat", capsys)
    assert is_flat(metrics["spread"]["trained"], WIDTH, metrics["graph"]["nodes"])
    assert events == ["collapsed", "validation", "validation"]
    (line,) = lines
    named = re.search(r": use a new run folder \(--run\) and add --set (\S+)$", line)
    assert (named[1], reason in line) == (cure, True)
    assert metrics["cure"] in line
    assert any(warning.endswith(metrics["cure"]) for warning in warnings_of(metrics))

    metrics, lines, events = told(settings(customers, table, *changed, named[1]), customers / "cured", capsys)
    assert not is_flat(metrics["spread"]["trained"], WIDTH, metrics["graph"]["nodes"])
    assert (lines, events) == ([], ["validation", "validation"])
    assert "cure" not in metrics


@pytest.mark.parametrize(
    ("cosine", "rank", "nodes", "flaw"),
    [
        (0.5, 17.8, 1000, "use few of their 386 dimensions"),
        (0.5, 17.8, 30, ""),  # the rank cannot exceed 30
        (0.67, 1.9, 3, ""),
        (-0.33, 1.0, 3, ""),  # two alike and one opposite
        (0.99, 1.1, 3, "have collapsed"),
        (0.5, 1.4, 1000, "have collapsed"),
    ],
)
def test_vectors_are_flat_by_the_dimensions_that_so_many_nodes_can_have(cosine, rank, nodes, flaw):
    found = flaw_of_spread({"mean_cosine": cosine, "effective_rank": rank}, 386, nodes)
    assert flaw in found
    assert bool(flaw) == bool(found)


FLAT, ROUND = ({"mean_cosine": cosine, "effective_rank": rank} for cosine, rank in ((0.999, 1.1), (0.1, 30.0)))


@pytest.mark.parametrize(
    ("found", "before", "layers", "cure"),
    [
        (FLAT, FLAT, 8, "8 layers flatten features that differ: .*model.layers=1$"),
        (FLAT, FLAT, 1, "it is the training that flattens the vectors: .*train.learning_rate=0.0001$"),
        (FLAT, ROUND, 8, "train.learning_rate=0.0001$"),
        (FLAT, None, 8, "train.learning_rate=0.0001$"),
        ({"mean_cosine": 0.5, "effective_rank": 2.0}, ROUND, 8, "^$"),
        (ROUND, FLAT, 8, "^$"),
    ],
)
def test_where_features_differ_layers_are_blamed_if_the_first_weights_flatten_them_too(
    tmp_path, found, before, layers, cure
):
    features = np.random.default_rng(0).normal(size=(100, 80)).astype(np.float32)
    graph = make_graph(tmp_path / "graph", [(0, 1)], 100, features=features)
    config = Config.parse({"model": {"layers": layers}})
    assert re.search(cure, cure_of(found, WIDTH, config, graph, lambda: before))


@pytest.mark.parametrize("validate_every", [0, 1])
def test_embeddings_that_are_not_finite_end_with_the_cure_of_a_diverged_training(customers, validate_every):
    diverging = ("train.learning_rate=1e30", "train.epochs=1", "train.batch_size=1000")
    config = settings(customers, "few", *diverging, f"train.validate_every={validate_every}")
    with pytest.raises(DivergedError, match=r"not finite, because the training diverged; lower train\.learning_rate"):
        run(config, customers / "run", Console(quiet=True))
    assert not (customers / "run/embeddings/embeddings.parquet").exists()
