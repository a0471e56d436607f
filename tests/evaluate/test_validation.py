"""Whoever chooses sees train and validation nodes only, and nodes whose labels have chosen are no test nodes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gscl_scale import pipeline
from gscl_scale.config.config import Config
from gscl_scale.config.evaluate import EvaluateConfig, TunedOn
from gscl_scale.config.identity import deciding_values
from gscl_scale.config.section import RESULTS
from gscl_scale.evaluate.linear_probe import probe_splits
from gscl_scale.evaluate.run import evaluate_run
from gscl_scale.evaluate.schema import flaw_of_metrics, read_metrics
from gscl_scale.evaluate.splits import make_splits
from gscl_scale.evaluate.summary import figures_table
from gscl_scale.evaluate.validation import MOST_SPLITS, selection_of, training_splits, tune_splits, validation_accuracy
from gscl_scale.graph.graph import Graph
from gscl_scale.io.json import write_json
from gscl_scale.report.compare_methods import comparison_page
from gscl_scale.runtime.console import Console
from gscl_scale.stages.report import report_runs
from gscl_scale.stages.selection import selection_for_training

TRAIN, VAL, TEST = 1, 2, 3
NODES = 90
QUICK = EvaluateConfig(initialisations=2, probe_epochs=30, probe_learning_rate=0.1, train_fractions=[0.2, 0.4])
SPLITS = [training_splits, tune_splits]


def noisy(make_graph: Callable[..., Graph], published: bool, labels: np.ndarray | None = None) -> Graph:
    """A graph whose features say little of its labels, with two published splits or none."""
    draw = np.random.default_rng(3)
    known = draw.integers(0, 3, NODES)
    features = draw.normal(size=(NODES, 5)).astype(np.float32) + np.eye(3, 5, dtype=np.float32)[known]
    codes = {f"split_{n}": draw.permutation(np.arange(NODES) % 3 + 1).astype(np.int8) for n in range(2)}
    made: dict[str, Any] = {"splits": codes} if published else {}
    return make_graph(NODES, [(0, 1)], features=features, labels=known if labels is None else labels, **made)


def codes_by_name(graph: Graph, config: EvaluateConfig = QUICK) -> dict[str, np.ndarray]:
    return {split.name: split.codes for split in make_splits(graph, config)}


def reading(codes: list[np.ndarray], *parts: int) -> np.ndarray:
    return np.isin(np.stack(codes), parts).any(axis=0)


@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize("splits_of", SPLITS)
def test_whoever_chooses_gets_the_train_and_validation_nodes_of_the_protocol_and_no_test_node(
    make_graph: Callable[..., Graph], splits_of: Any, published: bool
) -> None:
    graph = noisy(make_graph, published)
    whole = codes_by_name(graph)
    splits = splits_of(graph, QUICK, None)
    assert len(splits) == (1 if splits_of is training_splits else 2 if published else MOST_SPLITS)
    for split in splits:
        np.testing.assert_array_equal(split.codes, np.where(whole[split.name] == TEST, 0, whole[split.name]))


@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize("splits_of", SPLITS)
def test_what_chooses_depends_on_labels_of_validation_nodes_and_on_none_of_test_nodes(
    make_graph: Callable[..., Graph], splits_of: Any, published: bool
) -> None:
    graph = noisy(make_graph, published)
    splits = splits_of(graph, QUICK, None)
    whole = [codes_by_name(graph)[split.name] for split in splits]
    unread = ~reading(whole, TRAIN, VAL)
    assert unread.any()

    def accuracy(turned: np.ndarray) -> float:
        labels = np.where(turned, (graph.labels + 1) % 3, graph.labels)
        other = noisy(make_graph, published, labels)
        return validation_accuracy(other.features, other, splits_of(other, QUICK, None), QUICK)

    before = accuracy(np.zeros(NODES, bool))
    assert accuracy(unread) == before
    assert accuracy(reading(whole, VAL)) != before


def test_validation_accuracy_is_not_of_test_nodes_even_where_a_split_has_some(make_graph: Callable[..., Graph]) -> None:
    graph = noisy(make_graph, published=False)
    split = make_splits(graph, QUICK)[0]
    before = validation_accuracy(graph.features, graph, [split], QUICK)
    other = noisy(make_graph, False, np.where(split.codes == TEST, (graph.labels + 1) % 3, graph.labels))
    assert validation_accuracy(other.features, other, [split], QUICK) == before


def test_a_training_is_validated_on_the_split_that_is_left_out(make_graph: Callable[..., Graph]) -> None:
    graph = noisy(make_graph, published=False)
    config = Config.parse({"evaluate": QUICK.model_dump(), "train": {"validate_every": 1}})
    assert selection_for_training(config, graph) == "probe"
    (split,) = training_splits(graph, config.evaluate, None)
    assert set(np.unique(split.codes)) == {0, TRAIN, VAL}
    selection = selection_of(graph, QUICK, validated=True)
    np.testing.assert_array_equal(selection.nodes, split.codes == VAL)
    assert selection.chose == "the epoch of the encoder"


def test_a_training_is_validated_on_a_sample_of_the_split(make_graph: Callable[..., Graph]) -> None:
    (split,) = training_splits(noisy(make_graph, published=False), QUICK, None)
    counts, few = split.counts(), split.sampled(5, seed=0)
    assert min(counts["train"], counts["val"]) > 5
    assert few.counts() == {**counts, "train": 5, "val": 5}
    assert ((few.codes == split.codes) | (few.codes == 0)).all()
    np.testing.assert_array_equal(few.codes, split.sampled(5, seed=0).codes)
    assert (few.codes != split.sampled(5, seed=1).codes).any()
    np.testing.assert_array_equal(split.sampled(NODES, seed=0).codes, split.codes)


def test_those_that_a_search_has_chosen_on_are_left_out_whatever_the_seed_of_the_run(
    make_graph: Callable[..., Graph],
) -> None:
    graph = noisy(make_graph, published=False)
    searches = [TunedOn(train_fractions=[0.3], seed=7), TunedOn(seed=8)]
    config = QUICK.model_copy(update={"tuned_on": searches, "seed": 1})
    selection = selection_of(graph, config, validated=True)
    tuned = [split.codes for one in searches for split in make_splits(graph, one)]
    used = [*tuned, make_splits(graph, config)[0].codes]
    np.testing.assert_array_equal(selection.nodes, reading(used, VAL))
    assert selection.chose == "the settings and the epoch of the encoder"


def test_where_nothing_was_chosen_nobody_is_left_out_and_figures_are_as_ever(random_graph: Graph) -> None:
    selection = selection_of(random_graph, QUICK, validated=False)
    assert (selection.nodes.any(), selection.chose) == (False, "")
    vectors = {"trained": random_graph.features}
    metrics = evaluate_run(random_graph, vectors, None, QUICK, selection=selection)
    assert metrics == evaluate_run(random_graph, vectors, None, QUICK)
    assert "left_out" not in metrics["probe"]["protocol"]
    assert "tuned_on" not in deciding_values(
        QUICK, *RESULTS, first_revision=2
    )  # older figures stay those of these settings


def test_the_test_figure_is_of_nodes_whose_labels_have_chosen_nothing(random_graph: Graph) -> None:
    selection = selection_of(random_graph, QUICK, validated=True)
    metrics = evaluate_run(random_graph, {"trained": random_graph.features}, None, QUICK, selection=selection)
    whole = make_splits(random_graph, QUICK)
    for fraction, section in metrics["probe_by_fraction"].items():
        splits = [split for split in whole if f"{split.fraction:g}" == fraction]
        for split in splits:  # by hand
            split.codes[(split.codes == TEST) & (whole[0].codes == VAL)] = 0
        expected = probe_splits(random_graph.features, random_graph.labels, splits, 3, QUICK)
        assert section["trained"]["test_mean"] == expected.test_mean
        assert section["trained"]["val_mean"] == expected.val_mean
        assert [one["test"] for one in section["splits"]] == [split.counts()["test"] for split in splits]


def test_the_protocol_says_how_many_are_left_out_and_why_in_a_sentence(random_graph: Graph) -> None:
    selection = selection_of(random_graph, QUICK, validated=True)
    metrics = evaluate_run(random_graph, {"trained": random_graph.features}, None, QUICK, selection=selection)
    protocol = metrics["probe"]["protocol"]
    whole = [split.codes == TEST for split in make_splits(random_graph, QUICK) if split.fraction == 0.2]
    gone = [int((test & selection.nodes).sum()) for test in whole]
    assert gone[0] == 0 < max(gone)
    share = np.mean([lost / test.sum() for lost, test in zip(gone, whole, strict=True)])
    assert protocol["left_out"] == {
        "chose": "the epoch of the encoder", "share": pytest.approx(share), "most": max(gone), "too_few": [],
    }  # fmt: skip
    sentence = (
        f"Left out of the test accuracy: up to {max(gone)} test nodes of a split, {100 * share:.1f} % on average, "
        "because their labels, as validation nodes of another split, chose the epoch of the encoder."
    )
    assert sentence in figures_table(metrics)[2]
    assert sentence in comparison_page({"protocol": protocol, "seeds": [0], "methods": [], "graph": {"name": "made"}})
    assert flaw_of_metrics(metrics) == ""
    del protocol["left_out"]  # as in a folder of before
    assert flaw_of_metrics(metrics) == ""
    assert not [remark for remark in figures_table(metrics)[2] if "Left out" in remark]


def test_a_split_that_keeps_too_few_test_nodes_is_not_measured_and_says_so(make_graph: Callable[..., Graph]) -> None:
    parts = np.arange(NODES) % 3
    folds = {f"fold_{n}": ((parts + n) % 3 + 1).astype(np.int8) for n in range(3)}  # one's test nodes validate another
    graph = make_graph(NODES, [(0, 1)], labels=np.arange(NODES) // 3 % 2, splits=folds)

    def measured(**settings: Any) -> dict[str, Any]:
        config = QUICK.model_copy(update=settings)
        selection = selection_of(graph, config, validated=True)
        return evaluate_run(graph, {"trained": graph.features}, None, config, selection=selection)

    metrics = measured()
    assert [split["name"] for split in metrics["probe"]["splits"]] == ["fold_0", "fold_2"]
    assert "Not measured: fold_1, with fewer than 10 test nodes left." in figures_table(metrics)[2]
    nothing = measured(tuned_on=[TunedOn()])
    assert "probe" not in nothing
    reason = "no split keeps 10 test nodes whose labels did not choose the settings and the epoch of the encoder"
    assert nothing["missing"]["probe"] == reason
    assert f"Not measured: accuracy, because {reason}." in figures_table(nothing)[2]
    assert nothing["search"]["sim_at_5"] >= 0
    assert flaw_of_metrics(nothing) == ""


def test_a_run_leaves_them_out_and_figures_of_before_are_read_and_measured_again(tmp_path: Path) -> None:
    config = Config.parse(
        {
            "graph": {"source": "synthetic", "preset": "tiny", "num_nodes": 80, "num_features": 6},
            "rings": {"hops": 1, "per_ring": 4, "width": 16, "beyond": 8, "rounds": 1},
            "model": {"width": 8, "projection": 8},
            "train": {"epochs": 1, "batch_size": 80, "negatives": 16, "validate_every": 1},
            "evaluate": {"random_splits": 3, "initialisations": 2, "probe_epochs": 5, "probe_weight_decay": [0.0]},
            "runtime": {"workers": 1, "device": "cpu"},
        }
    )
    quiet = Console(quiet=True)
    metrics = pipeline.run(config, tmp_path / "run", quiet, pages=False)
    assert metrics["probe"]["protocol"]["left_out"]["most"] > 0
    path = tmp_path / "run" / "metrics.json"
    before = read_metrics(path)
    del before["made_from"]["selection"], before["probe"]["protocol"]["left_out"]
    write_json(path, before)
    report_runs({"one": tmp_path / "run", "other": tmp_path / "run"}, tmp_path / "both.html", quiet)
    assert read_metrics(path) == before
    assert pipeline.run(config, tmp_path / "run", quiet, pages=False) == metrics
