"""With shuffled labels all that labels can tell is gone: every row is at chance, and a leak is caught."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from gscl_scale.cli import studies
from gscl_scale.config.config import Config
from gscl_scale.config.graphs import MemoryGraph
from gscl_scale.errors import ConfigError, FolderError, GraphError, RunError
from gscl_scale.evaluate import linear_probe
from gscl_scale.evaluate.chance import chance_of
from gscl_scale.evaluate.splits import TEST, TRAIN, make_splits
from gscl_scale.evaluate.summary import figures_table
from gscl_scale.graph.draft import GraphDraft, write_graph
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.held_out_edges import HoldOut
from gscl_scale.io.json import read_json
from gscl_scale.report.compare_intervals import chance_remarks, leaks
from gscl_scale.report.compare_methods import comparison_page
from gscl_scale.retrain.night import retrain
from gscl_scale.run.record import open_run
from gscl_scale.runtime.console import Console
from gscl_scale.stages import train
from gscl_scale.stages.fit import _refuse_without_held_out
from gscl_scale.stages.ingest import ingest
from gscl_scale.studies.compare import compare
from gscl_scale.studies.reproduce.cells import Cell
from tests.slow import slow

QUIET = Console(quiet=True)
NODES, CLASSES = 240, 3
METHODS = ["spectral", "supervised", "dgi", "gscl-listwise"]


def written(folder, labels, shuffle=None, **columns):
    columns.setdefault("features", np.ones((len(labels), 2), np.float32))
    draft = GraphDraft("made", "a test", len(labels), [(np.arange(4), np.arange(4) + 1)], labels=labels, **columns)
    return write_graph(draft, MemoryGraph(structure="none"), folder, HoldOut(shuffle_labels=shuffle))


def test_labels_move_among_labelled_nodes_and_nothing_else_of_the_graph_changes(tmp_path):
    labels, features = np.array([0, 0, 1, 1, 2, -1, 2, 0, -1, 1]), np.random.default_rng(0).normal(size=(10, 3))
    plain, one, same, other = (
        written(tmp_path / name, labels, seed, features=features.astype(np.float32))
        for name, seed in (("plain", None), ("one", 1), ("same", 1), ("other", 2))
    )
    np.testing.assert_array_equal(one.labels < 0, labels < 0)
    np.testing.assert_array_equal(np.sort(one.labels), np.sort(labels))
    assert (one.labels != labels).any()
    np.testing.assert_array_equal(one.labels, same.labels)
    assert len({plain.fingerprint, one.fingerprint, other.fingerprint}) == 3
    names = [name for name, file in plain.manifest["files"].items() if file != one.manifest["files"][name]]
    assert names == ["labels.arrow"]
    assert (plain.name, one.name) == ("made", "made (labels shuffled, seed 1)")
    assert [graph.manifest.get("shuffled_labels") for graph in (plain, one, other)] == [None, 1, 2]


def test_a_node_with_many_labels_gets_all_those_of_another(tmp_path):
    labels = np.random.default_rng(0).random((30, 4)) < 0.4
    shuffled = written(tmp_path / "one", labels.astype(int), 3).label_sets
    matrix = shuffled.of(np.arange(30))
    np.testing.assert_array_equal(matrix.any(1), labels.any(1))
    assert sorted(map(tuple, matrix)) == sorted(map(tuple, labels))
    assert (matrix != labels).any()


def test_chance_is_between_uniform_guesses_and_naming_the_most_frequent(tmp_path):
    by_class = chance_of(written(tmp_path / "classes", np.array([0, 0, 0, 1, 1, 2, -1])), test_nodes=4)
    assert by_class == {"least": pytest.approx(1 / 3), "most": pytest.approx(1 / 2), "error": pytest.approx(0.25)}
    sets = np.array([[1, 1, 0, 0], [1, 0, 0, 1], [1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]])
    by_set = chance_of(written(tmp_path / "sets", sets), 5)  # the first is on three nodes, the last on two
    assert by_set["least"] == pytest.approx((4 + 4 + 1 + 4) / 7 / 4)
    assert by_set["most"] == pytest.approx((1 + 2 + 1 + 1) / 7)


def test_the_standard_error_of_chance_is_that_of_guesses_on_shuffled_labels(tmp_path):
    labels, draw = np.arange(60) % 3, np.random.default_rng(0)
    guesses = draw.integers(0, 3, 60)
    means = []
    for _ in range(2000):  # two halves of the nodes, of which a third is in both
        right = guesses == draw.permutation(labels)
        means.append((right[:30].mean() + right[20:50].mean()) / 2)
    error = chance_of(written(tmp_path / "graph", labels), 30)["error"]
    assert 0.6 * error < np.std(means) < error


@pytest.mark.slow
def test_chance_by_roc_auc_is_a_half_with_the_error_of_scores_that_know_nothing(tmp_path):
    labels, draw = np.repeat([0, 1, -1], [30, 10, 5]), np.random.default_rng(0)
    chance = chance_of(written(tmp_path / "graph", labels), 40, "roc_auc")
    assert (chance["least"], chance["most"]) == (0.5, 0.5)
    found = [roc_auc_score(labels[:40], draw.random(40)) for _ in range(2000)]
    assert np.std(found) == pytest.approx(chance["error"], rel=0.06)


@pytest.fixture(scope="module")
def values(tmp_path_factory):
    """The configuration of a comparison on a graph whose edges and features tell its balanced classes."""
    folder = tmp_path_factory.mktemp("graph")
    draw, classes = np.random.default_rng(1), np.arange(NODES) % CLASSES
    edges = draw.integers(0, NODES, (700, 2))
    edges[:, 1] += (classes[edges[:, 0]] - classes[edges[:, 1]]) * (draw.random(700) < 0.8)
    features = draw.normal(size=(NODES, 24)) + 2 * np.eye(CLASSES, 24)[classes]
    np.savez(folder / "mine.npz", edge_index=edges.T % NODES, x=features.astype(np.float32), y=classes)
    return {
        "graph": {"source": "npz", "path": str(folder / "mine.npz"), "structure": "none"},
        "rings": {"hops": 2, "per_ring": 4, "width": 16, "beyond": 8, "rounds": 1},
        "model": {"width": 16, "projection": 8},
        "train": {
            "epochs": 10, "batch_size": 120, "negatives": 16, "learning_rate": 0.01, "repeats": 2, "validate_every": 5,
        },
        "evaluate": {
            "train_fractions": [0.4], "val_fraction": 0.2, "random_splits": 2, "initialisations": 2,
            "probe_epochs": 60, "probe_learning_rate": 0.1, "probe_weight_decay": [0.0, 1e-3], "shuffle_labels": 1,
        },
        "runtime": {"workers": 1, "device": "cpu"},
        "compare": {"settings": {name: ["train.epochs=60"] for name in ("supervised", "dgi")}},
    }  # fmt: skip


def asked(values, **evaluate):
    return Config.parse({**values, "evaluate": {**values["evaluate"], **evaluate}})


@pytest.fixture(scope="module")
def shuffled(values, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare") / "run"
    return folder, compare(asked(values), folder, METHODS, QUIET)


def test_every_row_is_at_chance_and_the_same_rows_are_far_above_it_with_the_labels_as_they_are(
    values, shuffled, tmp_path
):
    _, result = shuffled
    assert [row["method"] for row in result["methods"]] == ["raw", "untrained", *METHODS]
    chance, test_nodes = result["chance"], result["protocol"]["counts"]["test"]
    assert chance["least"] == chance["most"] == pytest.approx(1 / CLASSES)
    assert chance["error"] == pytest.approx(np.sqrt(1 / 3 * 2 / 3 / test_nodes))
    for row in result["methods"]:
        assert abs(row["test_mean"] - 1 / CLASSES) < 2 * chance["error"], row["method"]
    assert leaks(result["methods"], result["chance"]) == []
    page = comparison_page(result)
    says = f"within two standard errors ({200 * chance['error']:.2f} points) of chance, 33.33 %. Every row is."
    assert f"The labels are shuffled: every test figure must be {says}" in page
    assert page.startswith("# Methods on mine (labels shuffled, seed 1)")
    one_seed = {**values, "train": {**values["train"], "repeats": 1}}
    plain = compare(asked(one_seed, shuffle_labels=None), tmp_path / "run", METHODS, QUIET)
    assert "chance" not in plain
    assert "shuffled" not in comparison_page(plain)
    assert all(row["test_mean"] > 0.6 for row in plain["methods"])


def probe_tests_its_training_nodes(patch):
    nodes = linear_probe._Task.nodes
    patch.setattr(linear_probe._Task, "nodes", lambda self, code: nodes(self, TRAIN if code == TEST else code))


def probe_learns_test_nodes(patch):
    nodes = linear_probe._Task.nodes

    def with_test(self, code):
        return np.concatenate([nodes(self, TRAIN), nodes(self, TEST)]) if code == TRAIN else nodes(self, code)

    patch.setattr(linear_probe._Task, "nodes", with_test)


def encoder_learns_test_nodes(patch):
    def leaking(*arguments):
        splits = make_splits(*arguments)
        for split in splits:
            split.codes[split.codes == TEST] = TRAIN
        return splits

    patch.setattr(train, "make_splits", leaking)


@pytest.mark.parametrize(
    ("plant", "methods", "caught"),
    [
        (probe_tests_its_training_nodes, ["spectral", "dgi"], {"raw", "untrained", "spectral", "dgi"}),
        *slow(
            (probe_learns_test_nodes, ["spectral"], {"spectral"}),
            (encoder_learns_test_nodes, ["supervised", "dgi"], {"supervised"}),
        ),
    ],
)
def test_a_planted_leak_is_caught(values, tmp_path, monkeypatch, plant, methods, caught):
    plant(monkeypatch)
    memorising = ["train.epochs=150", "model.width=64", "model.hidden_dropout=0", "model.feature_dropout=0"]
    settings = {"settings": {"supervised": memorising, "dgi": ["train.epochs=20"]}}
    result = compare(asked({**values, "compare": settings}), tmp_path / "run", methods, QUIET)
    assert {row["method"] for row in leaks(result["methods"], result["chance"])} == caught
    assert "Not at chance, so labels leak: " in comparison_page(result)


def test_only_rows_that_are_two_standard_errors_from_chance_are_leaks():
    chance = {"least": 0.3, "most": 0.4, "error": 0.05}
    means = {"high": 0.51, "low": 0.19, "above": 0.49, "below": 0.21, "none": None}
    rows = [{"method": name, "title": name, "test_mean": mean} for name, mean in means.items()]
    assert [row["title"] for row in leaks([*rows, {"title": "failed"}], chance)] == ["high", "low"]
    (sentence,) = chance_remarks(rows, chance)
    assert (
        "(10.00 points) of chance, 30.00 % to 40.00 %. Not at chance, so labels leak: high 51.00, low 19.00."
        in sentence
    )


@pytest.mark.parametrize("leaking", [True, False])
def test_the_command_fails_where_labels_leak(values, tmp_path, monkeypatch, leaking):
    row = {"method": "dgi", "title": "DGI", "test_mean": 0.6 if leaking else 0.4}
    result = {"graph": {"name": "made"}, "seeds": [0], "protocol": None, "methods": [], "config": {}}
    result |= {"chance": {"least": 0.3, "most": 0.4, "error": 0.05}, "methods": [row]}
    monkeypatch.setattr("gscl_scale.studies.compare.compare", lambda *_: result)
    monkeypatch.chdir(tmp_path)
    command = {"settings": ["graph.source=synthetic"], "run_folder": str(tmp_path / "run"), "as_json": True}
    if not leaking:
        studies.compare(**command)
        return
    with pytest.raises(RunError, match="labels leak: they are shuffled, and not at chance: DGI; the figures are kept"):
        studies.compare(**command)


def test_shuffled_labels_are_named_wherever_figures_are(values, shuffled, tmp_path):
    folder, result = shuffled
    metrics = read_json(folder / "compare/dgi/seed-0/metrics.json")
    assert metrics["graph"]["shuffled_labels"] == result["graph"]["shuffled_labels"] == 1
    warning = "Warning: the labels are shuffled (evaluate.shuffle_labels=1)"
    assert any(remark.startswith(warning) for remark in figures_table(metrics)[2])
    del metrics["graph"]["shuffled_labels"]
    assert not any(remark.startswith(warning) for remark in figures_table(metrics)[2])


def test_a_run_of_shuffled_labels_is_no_run_of_the_labels_and_neither_is_a_cell(values, tmp_path):
    plain, one, two = (asked(values, shuffle_labels=seed) for seed in (None, 1, 2))
    ingest(one, open_run(one, tmp_path / "run"), QUIET)
    for other in (plain, two):
        with pytest.raises(FolderError, match=r"was made with evaluate\.shuffle_labels=1, but the config now says"):
            open_run(other, tmp_path / "run")
    assert len({Cell("mine", config).name for config in (plain, one, two)}) == 3
    assert Graph.open(tmp_path / "run/graph").name == "mine (labels shuffled, seed 1)"


def test_a_finished_graph_with_other_labels_is_refused(values, tmp_path):
    plain, one = (asked(values, shuffle_labels=seed) for seed in (None, 1))
    for name, config in (("plain", plain), ("one", one)):
        ingest(config, open_run(config, tmp_path / name), QUIET)
    _refuse_without_held_out(Graph.open(tmp_path / "one/graph"), one)
    with pytest.raises(GraphError, match="ingested with other labels"):
        _refuse_without_held_out(Graph.open(tmp_path / "plain/graph"), one)


def test_nothing_of_shuffled_labels_comes_into_a_registry(values, tmp_path):
    with pytest.raises(ConfigError, match=r"evaluate\.shuffle_labels: a registry has versions of the labels as they"):
        retrain(asked(values), tmp_path / "registry", QUIET)
    assert not (tmp_path / "registry").exists()
