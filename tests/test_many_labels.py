"""A graph whose nodes have many labels, from the file to the figures."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch_geometric.data import Data

from gscl_scale import fit
from gscl_scale.config.config import Config
from gscl_scale.evaluate.schema import read_metrics
from gscl_scale.graph.graph import Graph
from gscl_scale.report.plots import plot_comparison
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.stages.report import report_runs
from gscl_scale.stages.selection import selection_kind, trial_figure
from gscl_scale.studies.compare import compare
from tests.commands import cli
from tests.report.test_report import Page

NUM_NODES, NUM_GROUPS = 120, 4
SETTINGS = {
    "rings": {"hops": 1, "per_ring": 4, "width": 16, "beyond": 8, "rounds": 1},
    "model": {"width": 8, "projection": 8},
    "train": {"epochs": 2, "batch_size": 64, "negatives": 16, "validate_every": 1},
    "evaluate": {"random_splits": 2, "initialisations": 2, "probe_epochs": 5},
    "runtime": {"workers": 1, "device": "cpu"},
}


def drawn() -> tuple[np.ndarray, np.ndarray]:
    """Nodes in one or two of four groups [N, 4], and edges [2, E] between nodes that share one."""
    draw = np.random.default_rng(0)
    labels = np.zeros((NUM_NODES, NUM_GROUPS), np.int64)
    labels[np.arange(NUM_NODES), np.arange(NUM_NODES) % NUM_GROUPS] = 1
    labels[np.arange(NUM_NODES), draw.integers(0, NUM_GROUPS, NUM_NODES)] = 1
    pairs = draw.integers(0, NUM_NODES, (2, 4000))
    shared = (labels[pairs[0]] * labels[pairs[1]]).sum(axis=1) * (pairs[0] % NUM_GROUPS == pairs[1] % NUM_GROUPS)
    return labels, pairs[:, shared > 0]


LABELS, EDGES = drawn()


def config_of(path: Path, **changes: Any) -> dict[str, Any]:
    return {**SETTINGS, "graph": {"source": "npz", "path": str(path)}, **changes}


@pytest.fixture(scope="module")
def npz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("input") / "groups.npz"
    np.savez(path, edge_index=EDGES, y=LABELS)
    return path


@pytest.fixture(scope="module")
def finished(npz: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("run")
    (folder / "groups.yaml").write_text(json.dumps(config_of(npz)))
    done = cli("run", "--config", "groups.yaml", "--run", "mine", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "mine", done.stdout


def test_a_run_prints_both_f1_at_each_train_share(finished: tuple[Path, str]) -> None:
    folder, printed = finished
    metrics = read_metrics(folder / "metrics.json")
    for share, part in metrics["probe_by_fraction"].items():
        assert f"{100 * float(share):g} %" in printed
        for figure in ("test_mean", "macro_mean"):
            assert part["trained"][figure] > 0.5  # each node has 1.75 of 4 labels
            assert f"{100 * part['trained'][figure]:.2f} ± " in printed
    assert "Not measured: NMI and Sim@5, because a node has many labels." in printed
    assert "4 labels" in printed


def test_the_page_shows_f1_and_a_map_with_the_most_common_labels(finished: tuple[Path, str]) -> None:
    page = (finished[0] / "report.html").read_text(encoding="utf-8")
    text = re.sub(r"<(script|style|svg)\b.*?</\1>|<[^>]+>", "", page, flags=re.DOTALL)
    for words in (
        "test micro-F1",
        "validation micro-F1 %",
        "90 % of nodes, macro-F1",
        "4 (120 nodes labelled), on average 1.7",
        "Label consistency per hop is not given, because a node has many labels",
        "the class of a node here is the one of them that most nodes have",
    ):
        assert words in text
    assert 'aria-label="Lines over epoch: micro-F1 ' in page
    others = ("Ranking accuracy", "ranking accuracy", "measure: accuracy")  # the last is a line of the configuration
    assert "accuracy" not in re.sub("|".join(others), "", text)


def test_runs_are_compared_by_f1(finished: tuple[Path, str], tmp_path: Path) -> None:
    report_runs({"one": finished[0], "other": finished[0]}, tmp_path / "c.html", Console(quiet=True))
    page = Page((tmp_path / "c.html").read_text(encoding="utf-8"))
    for words in ("reaches the highest test micro-F1", "test macro-F1, %", "validation micro-F1, %"):
        assert words in page.text


def test_methods_are_compared_by_f1(npz: Path, tmp_path: Path) -> None:
    result = compare(Config.parse(config_of(npz)), tmp_path / "run", ["spectral", "gscl-listwise"], Console(quiet=True))
    page = (tmp_path / "run" / "compare.md").read_text()
    assert "| method | validation micro-F1 % | micro-F1 % | macro-F1 % | training |" in page
    assert "F1 of a linear probe on frozen vectors" in page
    assert "at a train share of 50 %" in page
    assert "one L2 penalty for all splits, by their mean" in page
    rows = {row["method"]: row for row in result["methods"]}
    assert list(rows) == ["raw", "untrained", "spectral", "gscl-listwise"]
    for row in rows.values():
        assert f"| {100 * row['macro_mean']:.2f} |" in page
    plot_comparison(result, tmp_path / "compare.svg")
    assert "test micro-F1 on groups, %" in (tmp_path / "compare.svg").read_text()


def test_a_search_compares_its_trials_by_micro_f1_on_validation_nodes(finished: tuple[Path, str], npz: Path) -> None:
    run, config = Run.found(finished[0]), Config.parse(config_of(npz))
    graph = Graph.open(run.graph)
    assert selection_kind(config, graph) == "probe"
    figure = trial_figure(config, run, graph, torch.device("cpu"))
    groups = LABELS.astype(np.float32)
    noise = np.random.default_rng(1).standard_normal((NUM_NODES, 4)).astype(np.float32)
    assert figure(groups) == 1.0
    assert figure(noise) < 0.8


def test_one_label_per_node_is_asked_for_by_the_objective_that_learns_classes(npz: Path, tmp_path: Path) -> None:
    (tmp_path / "groups.yaml").write_text(json.dumps(config_of(npz)))
    done = cli("run", "--config", "groups.yaml", "--set", "train.objective=supervised", cwd=tmp_path)
    assert done.returncode == 2
    assert "supervised learns from labels of a split, but a node has many labels; choose another" in done.stderr


def test_a_matrix_that_is_no_labels_is_refused_in_a_sentence(tmp_path: Path) -> None:
    np.savez(tmp_path / "odd.npz", edge_index=EDGES, y=3 * LABELS)
    (tmp_path / "odd.yaml").write_text(json.dumps(config_of(tmp_path / "odd.npz")))
    done = cli("run", "--config", "odd.yaml", "--run", "mine", cwd=tmp_path)
    assert done.returncode == 2
    assert "odd.npz: labels have shape (120, 4), and some are not 0 or 1; expected one class per node" in done.stderr
    assert not (tmp_path / "mine" / "graph").exists()


def test_the_estimator_reads_a_graph_with_many_labels_and_learns_nothing_from_them() -> None:
    first, other = (
        Data(edge_index=torch.from_numpy(EDGES), num_nodes=NUM_NODES, y=torch.from_numpy(labels).float())
        for labels in (LABELS, LABELS[::-1].copy())
    )
    settings = {**SETTINGS, "train": {**SETTINGS["train"], "validate_every": 0}}
    np.testing.assert_array_equal(fit(first, settings), fit(other, settings))


def test_a_table_with_a_separator_gives_the_same_labels(npz: Path, tmp_path: Path) -> None:
    pd.DataFrame(EDGES.T, columns=["source", "target"]).to_csv(tmp_path / "edges.csv", index=False)
    words = [";".join(str(label) for label in np.flatnonzero(row)) for row in LABELS]
    pd.DataFrame({"id": np.arange(NUM_NODES), "groups": words}).to_csv(tmp_path / "nodes.csv", index=False)
    (tmp_path / "tables.yaml").write_text(
        json.dumps({"graph": {"source": "tables", "edges": "edges.csv", "nodes": "nodes.csv"}})
    )
    done = cli(
        "ingest", "--config", "tables.yaml", "--run", "mine",
        "--set", "graph.label_column=groups", "--set", "graph.label_separator=;", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    graph = Graph.open(tmp_path / "mine" / "graph")
    assert graph.label_sets is not None
    np.testing.assert_array_equal(graph.label_sets.of(np.arange(NUM_NODES)), LABELS > 0)
