"""The probe of graphs whose nodes have many labels, beside scikit-learn."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

from gscl_scale import seeding
from gscl_scale.config.evaluate import EvaluateConfig
from gscl_scale.evaluate import label_probe, one_vs_rest
from gscl_scale.evaluate.label_probe import PENALTIES, _count, _Counts, probe_label_sets
from gscl_scale.evaluate.linear_probe import ProbeResult
from gscl_scale.evaluate.one_vs_rest import Part, fit_one_vs_rest
from gscl_scale.evaluate.repeats import combine_repeats
from gscl_scale.evaluate.run import evaluate_run
from gscl_scale.evaluate.schema import Metrics, flaw_of_metrics
from gscl_scale.evaluate.splits import TEST, TRAIN, VAL, Split, _random_shares
from gscl_scale.evaluate.summary import figures_table, protocol_sentences
from gscl_scale.evaluate.validation import selection_of, validation_accuracy, validation_splits
from gscl_scale.evaluate.vectors import KINDS, Vectors, blocks, fit_scaling, load_rows
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.label_sets import sets_from_matrix
from tests.evaluate.test_probe import as_sparse

CONFIG = EvaluateConfig(random_splits=2)


def drawn(nodes: int = 400, columns: int = 8, labels: int = 5) -> tuple[Any, Any]:
    """Vectors [N, d], and for each node the labels [N, L] whose directions it lies in."""
    draw = seeding.generator("label blobs", 3)
    vectors = draw.standard_normal((nodes, columns)).astype(np.float32) + 0.5
    score = vectors @ draw.standard_normal((columns, labels)) + draw.standard_normal((nodes, labels))
    rare = [np.quantile(column, share) for column, share in zip(score.T, np.linspace(0.5, 0.95, labels), strict=True)]
    return vectors, (score > rare).astype(np.int64)


def parts_of(vectors: Vectors, labels: np.ndarray, kind: Any, at_once: int = 90) -> list[Part]:
    scaling = fit_scaling(vectors, kind)
    return [
        Part(load_rows(vectors, nodes, scaling, "cpu"), torch.from_numpy(labels[nodes].astype(np.float32)))
        for nodes in blocks(np.arange(labels.shape[0]), at_once)
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["dense", "sparse", "too wide to turn"])
def test_all_labels_and_penalties_reach_the_minimum_that_scikit_learn_finds_for_each(
    form: str, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors, labels = drawn()
    if form == "too wide to turn":
        monkeypatch.setattr(one_vs_rest, "_MOST_ROTATED", 4)
    if form == "sparse":
        vectors = np.pad(np.where(np.abs(vectors) > 1, vectors, 0), ((0, 0), (0, 100)))
    parts = parts_of(as_sparse(vectors) if form == "sparse" else vectors, labels, kind)
    fitted = fit_one_vs_rest(parts, [1e-2, 1.0], 200)
    dense = torch.cat([part.rows.times(torch.eye(vectors.shape[1])) for part in parts]).numpy()
    for at, penalty in enumerate([1e-2, 1.0]):
        for label in range(labels.shape[1]):
            strength = 1 / (penalty * dense.var(axis=0).mean() * dense.shape[0])
            one = LogisticRegression(C=strength, tol=1e-8, max_iter=5000).fit(dense, labels[:, label])
            scale = np.abs(one.coef_).max()
            np.testing.assert_allclose(fitted.weight[:, label, at], one.coef_[0], atol=0.02 * scale)
            np.testing.assert_allclose(fitted.bias[label, at], one.intercept_[0], atol=0.02 * max(1, scale))


@given(st.integers(0, 1000), st.integers(1, 30), st.integers(2, 6))
def test_as_many_labels_are_predicted_as_a_node_has(seed: int, nodes: int, labels: int) -> None:
    draw = np.random.default_rng(seed)
    logits, present = draw.standard_normal((nodes, labels, 2)), draw.random((nodes, labels)) < 0.4
    counted = _Counts(*_count(torch.from_numpy(logits), torch.from_numpy(present)).numpy())
    for at in range(2):
        predicted = np.zeros_like(present)
        for node, row in enumerate(present):
            predicted[node, np.argsort(-logits[node, :, at])[: row.sum()]] = True
        for average, figure in (("micro", counted.micro()), ("macro", counted.macro())):
            expected = f1_score(present.astype(int), predicted.astype(int), average=average, zero_division=0)
            assert figure[at] == pytest.approx(expected)


def split_of(labels: np.ndarray, cut: bool = True) -> Split:
    codes = np.repeat(np.array([TRAIN, VAL, TEST], np.int8), [150, 50, labels.shape[0] - 200])
    return Split("given", None, codes, cut=cut)


def probe(vectors: Vectors, labels: np.ndarray, split: Split, **settings: Any) -> ProbeResult:
    sets = sets_from_matrix(labels, "a test")
    return probe_label_sets(vectors, sets, [split], CONFIG.model_copy(update=settings))


def expected_f1(vectors: np.ndarray, labels: np.ndarray, learnt: np.ndarray, penalty: float) -> tuple[float, float]:
    fitted = fit_one_vs_rest(parts_of(vectors[learnt], labels[learnt], "none"), [penalty], label_probe.ITERATIONS)
    logits = vectors[200:] @ fitted.weight[:, :, 0].numpy() + fitted.bias[:, 0].numpy()
    predicted = np.zeros_like(labels[200:])
    for node, row in enumerate(labels[200:]):
        predicted[node, np.argsort(-logits[node])[: row.sum()]] = 1
    micro, macro = (f1_score(labels[200:], predicted, average=how, zero_division=0) for how in ("micro", "macro"))
    return micro, macro


@pytest.mark.parametrize(("cut", "learnt"), [(True, slice(200)), (False, slice(150))])
def test_the_probe_learns_from_validation_nodes_in_the_end_where_they_were_train_nodes(
    cut: bool, learnt: slice
) -> None:
    vectors, labels = drawn()
    found = probe(vectors, labels, split_of(labels, cut), probe_scaling="none")
    assert found.macro is not None
    expected = expected_f1(vectors, labels, np.arange(400)[learnt], found.weight_decay)
    assert (found.test[0, 0], found.macro[0, 0]) == pytest.approx(expected, abs=0.006)


def test_labels_of_test_nodes_choose_nothing() -> None:
    vectors, labels = drawn()
    other = labels.copy()
    other[200:] = seeding.generator("others", 1).permutation(labels[200:])
    one, two = (probe(vectors, of, split_of(labels), probe_scaling="auto") for of in (labels, other))
    assert (one.val_by_decay, one.weight_decay, one.scaling) == (two.val_by_decay, two.weight_decay, two.scaling)
    assert one.test_mean > two.test_mean + 0.1


def test_the_penalty_and_scaling_with_the_best_validation_are_taken() -> None:
    vectors, labels = drawn()
    found = probe(vectors, labels, split_of(labels), probe_scaling="auto")
    assert found.val_by_decay[found.weight_decay] == max(found.val_by_decay.values()) == found.val_mean
    each = [probe(vectors, labels, split_of(labels), probe_scaling=kind).val_mean for kind in KINDS]
    assert (found.val_mean, found.scaling) == (max(each), KINDS[int(np.argmax(each))])


def test_without_validation_nodes_the_middle_penalty_counts() -> None:
    vectors, labels = drawn()
    split = split_of(labels)
    found = probe(vectors, labels, Split("given", None, np.where(split.codes == VAL, 0, split.codes).astype(np.int8)))
    assert found.weight_decay == PENALTIES[len(PENALTIES) // 2]
    assert np.isnan(found.val).all()
    assert found.test_mean > 0.5


@pytest.mark.parametrize("value", [0, 1, 1000])
def test_vectors_that_are_all_alike_say_how_frequent_labels_are(value: int) -> None:
    _, labels = drawn()
    rounding = 1e-7 * seeding.generator("rounding", 1).standard_normal((400, 8))
    alike = (value * (1 + rounding)).astype(np.float32)
    parts = parts_of(alike, labels, "l2")
    fitted = fit_one_vs_rest(parts, PENALTIES, 30)
    shares = torch.sigmoid(fitted.logits(parts[0].rows))
    expected = np.broadcast_to(labels.mean(axis=0)[:, None], shares.shape)
    np.testing.assert_allclose(shares, expected, atol=0.02)
    found = probe(alike, labels, split_of(labels))
    assert 0 <= found.test_mean < 1


def test_many_nodes_are_learnt_from_by_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, labels = drawn()
    learnt = []
    monkeypatch.setattr(label_probe, "MOST_ROWS", 60)
    monkeypatch.setattr(
        label_probe, "fit_one_vs_rest", lambda parts, *rest: learnt.append(parts) or fit_one_vs_rest(parts, *rest)
    )
    probe(vectors, labels, split_of(labels))
    assert [sum(part.target.shape[0] for part in parts) for parts in learnt] == [60, 60]


# --- splits and the figures of a run ---------------------------------------------------------------------------------


@pytest.fixture
def label_graph(make_graph: Callable[..., Graph]) -> Graph:
    vectors, labels = drawn(120)
    labels[labels.sum(axis=1) == 0, 0] = 1
    labels[:10] = 0
    return make_graph(120, [(node, node + 1) for node in range(119)], labels=labels, features=vectors)


@given(labelled=st.integers(10, 200), share=st.floats(0.001, 0.999))
def test_every_train_share_has_train_val_and_test_nodes(labelled: int, share: float) -> None:
    graph = type("Labels", (), {"labelled": np.ones(labelled, bool), "num_nodes": labelled})()
    (split,) = _random_shares(graph, EvaluateConfig(many_labels_fractions=[share], random_splits=1))
    counts = split.counts()
    assert min(counts.values()) >= 1
    assert sum(counts.values()) == labelled
    assert counts["train"] + counts["val"] == min(max(2, round(share * labelled)), labelled - 1)


def figures_of(graph: Graph, **settings: Any) -> Metrics:
    features = np.asarray(graph.features)
    vectors: Any = {"trained": features, "untrained": features[:, ::-1].copy(), "raw": graph.features}
    return evaluate_run(graph, vectors, None, CONFIG.model_copy(update=settings))


def test_a_run_has_micro_and_macro_f1_at_every_train_share(label_graph: Graph) -> None:
    metrics = figures_of(label_graph)
    assert flaw_of_metrics(metrics) == ""
    protocol, trained = metrics["probe"]["protocol"], metrics["probe"]["trained"]
    assert (protocol["labels"], protocol["train_fraction"], protocol["num_splits"]) == (5, 0.5, 2)
    assert protocol["counts"] == {"train": 44, "val": 11, "test": 55}  # ten nodes have no label
    assert list(metrics["probe_by_fraction"]) == ["0.5", "0.1", "0.9"]
    for name in ("test_mean", "macro_mean"):
        assert trained[name] == pytest.approx(np.mean([split["trained"][name] for split in metrics["probe"]["splits"]]))
    assert metrics["missing"]["clusters"] == metrics["missing"]["search"] == "a node has many labels"
    headers, rows, remarks = figures_table(metrics)
    assert headers == ["F1 in % by train share", "10 %", "50 %", "90 %"]
    assert [name for name, *_ in rows][-2:] == ["trained encoder, micro-F1", "trained encoder, macro-F1"]
    assert rows[-2][2].startswith(f"{100 * trained['test_mean']:.2f} ± ")
    assert rows[-1][2].startswith(f"{100 * trained['macro_mean']:.2f} ± ")
    assert any("each of 5 labels" in remark and "44 / 11 / 55 nodes" in remark for remark in remarks)


def test_figures_do_not_depend_on_the_number_of_nodes_read_at_once(
    label_graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = figures_of(label_graph)["probe"]["trained"]
    monkeypatch.setattr(label_probe, "_LOGITS", 1)
    assert figures_of(label_graph)["probe"]["trained"]["test_mean"] == pytest.approx(whole["test_mean"], abs=0.01)


def test_means_over_repeats_have_errors_of_both_f1(label_graph: Graph) -> None:
    both = [figures_of(label_graph, seed=seed) for seed in (0, 1)]
    merged = combine_repeats(both)
    assert flaw_of_metrics(merged) == ""
    for name in ("test", "macro"):
        means = [one["probe"]["trained"][f"{name}_mean"] for one in both]
        assert merged["probe"]["trained"][f"{name}_mean"] == pytest.approx(np.mean(means))
        assert merged["probe"]["trained"][f"{name}_se"] == pytest.approx(np.std(means, ddof=1) / np.sqrt(2))


def test_published_splits_are_used_as_they_are(make_graph: Callable[..., Graph]) -> None:
    vectors, labels = drawn(120)
    codes = np.repeat(np.array([TRAIN, VAL, TEST], np.int8), 40)
    graph = make_graph(120, [(0, 1)], labels=labels, features=vectors, splits={"official": codes})
    metrics = figures_of(graph)
    assert "probe_by_fraction" not in metrics
    assert metrics["probe"]["protocol"]["kind"] == "published"
    assert metrics["probe"]["protocol"]["selection"] == "best validation micro-F1"
    assert figures_table(metrics)[0] == ["", "validation micro-F1 %", "micro-F1 %", "macro-F1 %"]


def test_choices_are_made_on_validation_nodes_of_the_first_share_and_these_are_no_test_nodes(
    label_graph: Graph,
) -> None:
    splits = validation_splits(label_graph, CONFIG, 5)
    assert {split.fraction for split in splits} == {0.5}
    assert not any((split.codes == TEST).any() for split in splits)
    assert 0 < validation_accuracy(np.asarray(label_graph.features), label_graph, splits, CONFIG) <= 1
    selection = selection_of(label_graph, CONFIG, validated=True)
    assert selection.nodes.sum() == 11
    vectors: Any = {"trained": np.asarray(label_graph.features)}
    metrics = evaluate_run(label_graph, vectors, None, CONFIG, selection=selection)
    assert metrics["probe"]["protocol"]["left_out"]["most"] > 0
    assert any(sentence.startswith("Left out of the test micro-F1") for sentence in protocol_sentences(metrics))
