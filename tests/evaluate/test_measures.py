"""ROC-AUC in place of accuracy: counted as scikit-learn does, chosen by, and named wherever it is shown."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from gscl_scale import seeding
from gscl_scale.config.config import Config
from gscl_scale.config.evaluate import EvaluateConfig
from gscl_scale.errors import ConfigError
from gscl_scale.evaluate import linear_probe
from gscl_scale.evaluate.gain import gains
from gscl_scale.evaluate.linear_probe import ProbeResult, probe_splits
from gscl_scale.evaluate.measures import count_right, most_right
from gscl_scale.evaluate.run import evaluate_run
from gscl_scale.evaluate.splits import Split
from gscl_scale.evaluate.summary import figures_table
from gscl_scale.evaluate.validation import probe
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.label_sets import sets_from_matrix
from gscl_scale.report.compare_methods import comparison_headers, comparison_remarks
from gscl_scale.report.results import accuracy, headline

AUC = EvaluateConfig(
    measure="roc_auc", initialisations=3, probe_epochs=60, probe_learning_rate=0.05, probe_scaling="none",
    probe_weight_decay=[0.0, 1e-2], random_splits=2,
)  # fmt: skip


def rare(nodes: int = 600) -> tuple[Any, Any, Any]:
    """Vectors whose first column is higher on average where a rare class is, labels, and codes of a split."""
    draw = seeding.generator("rare", 3)
    labels = (draw.random(nodes) < 0.15).astype(np.int64)
    vectors = draw.standard_normal((nodes, 6))
    vectors[:, 0] += 1.2 * labels
    codes = np.repeat(np.array([1, 2, 3], np.int8), [nodes // 3, nodes // 3, nodes - 2 * (nodes // 3)])
    return vectors.astype(np.float32), labels, codes


def probed(labels: Any, config: EvaluateConfig = AUC, codes: Any = None) -> ProbeResult:
    vectors, _, split = rare()
    return probe_splits(vectors, labels, [Split("given", None, split if codes is None else codes)], 2, config)


@pytest.mark.parametrize("levels", [2, 5, 10_000])
@pytest.mark.parametrize("parts", [1, 3])
def test_pairs_in_order_are_the_roc_auc_of_scikit_learn_also_with_ties_and_over_parts(levels: int, parts: int) -> None:
    draw = seeding.generator("pairs", levels)
    labels = draw.permutation(np.arange(90) % 4 == 0).astype(np.int64)
    scores = draw.integers(0, levels, (90, 7)) / 8  # the first column of logits is not 0: their difference counts
    logits = torch.from_numpy(np.stack([np.ones_like(scores), 1 + scores], axis=1))
    blocks = zip(logits.chunk(parts), torch.from_numpy(labels).chunk(parts), strict=True)
    found = count_right("roc_auc", blocks).numpy() / most_right("roc_auc", labels)
    np.testing.assert_allclose(found, [roc_auc_score(labels, lane) for lane in scores.T], rtol=1e-12)


def test_the_probe_reaches_the_roc_auc_that_scikit_learn_reaches() -> None:
    vectors, labels, codes = rare()
    codes = np.where(codes == 2, 1, codes).astype(np.int8)
    reference = LogisticRegression().fit(vectors[codes == 1], labels[codes == 1])
    expected = roc_auc_score(labels[codes == 3], reference.decision_function(vectors[codes == 3]))
    config = AUC.model_copy(update={"probe_weight_decay": [1 / 400], "probe_epochs": 800})
    np.testing.assert_allclose(probed(labels, config, codes).test, expected, atol=0.004)


def test_the_step_with_the_highest_roc_auc_on_validation_nodes_is_taken_and_test_labels_choose_nothing() -> None:
    _, labels, codes = rare()
    one_decay = AUC.model_copy(update={"probe_weight_decay": [0.0]})
    until = [probed(labels, one_decay.model_copy(update={"probe_epochs": epoch})) for epoch in range(1, 31)]
    assert all((later.val >= one.val).all() for one, later in itertools.pairwise(until))
    assert (until[-1].best_epoch <= 30).all()
    shuffled = labels.copy()
    shuffled[codes == 3] = seeding.generator("shuffle", 1).permutation(labels[codes == 3])
    honest, shuffle = probed(labels), probed(shuffled)
    np.testing.assert_array_equal(honest.val, shuffle.val)
    np.testing.assert_array_equal(honest.best_epoch, shuffle.best_epoch)
    assert honest.val_by_decay == shuffle.val_by_decay
    assert honest.test_mean > shuffle.test_mean + 0.1


def test_swapping_the_classes_changes_nothing() -> None:
    _, labels, _ = rare()
    one, other = probed(labels), probed(1 - labels)
    assert abs(one.test_mean - other.test_mean) < 0.005


def test_roc_auc_is_the_same_however_many_rows_and_decays_are_computed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _, labels, _ = rare()
    whole = probed(labels)
    monkeypatch.setattr(linear_probe, "_LOGITS", 2 * 3 * 200)  # a decay at a time
    np.testing.assert_allclose(probed(labels).test, whole.test, atol=1e-6)


def test_a_part_of_one_class_has_no_roc_auc_and_is_refused() -> None:
    _, labels, codes = rare()
    for code, name in ((2, "validation"), (3, "test")):
        with pytest.raises(
            ConfigError, match=rf"^evaluate.measure: the {name} nodes of split given are all of one class"
        ):
            probed(np.where(codes == code, 0, labels))


@pytest.fixture
def binary(make_graph: Callable[..., Graph]) -> Graph:
    vectors, labels, _ = rare()
    edges = seeding.generator("edges", 1).integers(0, 600, (900, 2)).tolist()
    return make_graph(600, edges, features=vectors, labels=labels)


def test_a_run_reports_roc_auc_by_name_wherever_accuracy_would_stand(binary: Graph) -> None:
    vectors = np.array(binary.features)
    noise = seeding.generator("noise", 1).standard_normal(vectors.shape).astype(np.float32)
    metrics = evaluate_run(binary, {"trained": vectors, "raw": noise}, None, AUC)
    assert metrics["probe"]["protocol"]["measure"] == "roc_auc"
    assert metrics["probe"]["protocol"]["selection"] == "best validation ROC-AUC"
    assert metrics["probe"]["trained"]["test_mean"] > 0.65 > 0.6 > metrics["probe"]["raw"]["test_mean"]
    headers, _, remarks = figures_table(metrics)
    assert headers == ["", "validation ROC-AUC %", "test ROC-AUC %", "NMI", "Sim@5"]
    assert remarks[0].startswith("ROC-AUC: logistic regression")
    assert gains(metrics)[0].figure == "test ROC-AUC"
    assert "test ROC-AUC, " in headline(metrics, "it")
    assert "ROC-AUC of a linear probe" in accuracy(metrics)
    result: Any = {"protocol": metrics["probe"]["protocol"], "seeds": [0], "methods": []}
    assert comparison_headers(result)[1:3] == ["validation ROC-AUC %", "test ROC-AUC %"]
    assert comparison_remarks(result)[0].startswith("ROC-AUC of a linear probe on frozen vectors")
    assert "weight decay for all splits" in comparison_remarks(result)[0]


def test_by_default_nothing_is_said_of_a_measure(binary: Graph) -> None:
    metrics = evaluate_run(
        binary, {"trained": np.array(binary.features)}, None, AUC.model_copy(update={"measure": "accuracy"})
    )
    assert "measure" not in metrics["probe"]["protocol"]
    assert figures_table(metrics)[0][1:3] == ["validation %", "test %"]


def test_roc_auc_of_more_than_two_classes_or_of_many_labels_is_refused(
    random_graph: Graph, make_graph: Callable[..., Graph]
) -> None:
    splits = [Split("given", None, np.resize(np.array([1, 2, 3], np.int8), 60))]
    with pytest.raises(
        ConfigError, match=r"needs two classes, and this graph has 3; set evaluate\.measure to accuracy"
    ):
        probe(np.zeros((60, 4), np.float32), random_graph, splits, AUC)
    sets = make_graph(60, [(0, 1)], labels=sets_from_matrix(seeding.generator("sets", 1).integers(0, 2, (60, 4)), "y"))
    with pytest.raises(ConfigError, match="a node of this graph has many labels"):
        probe(np.zeros((60, 4), np.float32), sets, splits, AUC)


def test_the_key_is_refused_where_it_is_misspelt() -> None:
    with pytest.raises(ConfigError, match=r"evaluate\.measure"):
        Config.load(None, ["evaluate.measure=auc"])
