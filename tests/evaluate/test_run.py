import copy
import json
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from gscl_scale import seeding
from gscl_scale.config.evaluate import EvaluateConfig
from gscl_scale.config.sections import RingsConfig
from gscl_scale.errors import RunError
from gscl_scale.evaluate import run
from gscl_scale.evaluate.repeats import combine_repeats
from gscl_scale.evaluate.run import evaluate_run
from gscl_scale.evaluate.schema import flaw_of_metrics
from gscl_scale.evaluate.similarity import ring_lists
from gscl_scale.evaluate.summary import figures_table, warnings_of
from gscl_scale.graph.graph import Graph
from gscl_scale.rings.sample import Lists, RingSample
from gscl_scale.runtime.console import Console

QUICK = EvaluateConfig(initialisations=3, probe_epochs=50, probe_learning_rate=0.1, random_splits=2)


class WholeGraph:
    """Rings of hops 1 and 2, as `take` of stored samples gives them: here arbitrary lists."""

    def take(self, anchors: np.ndarray) -> RingSample:
        lists = [Lists(np.arange(anchors.size + 1), np.roll(anchors, shift)) for shift in (1, 2, 3)]
        nothing = np.zeros((anchors.size, RingsConfig().hops))
        return RingSample(
            anchors, lists[:2], lists[2], nothing[:, 0], nothing.astype(np.int64), nothing[:, 0] > 0, None
        )


def vectors_of(graph: Graph) -> dict[str, Any]:
    noise = seeding.generator("untrained", 1).standard_normal((graph.num_nodes, 8)).astype(np.float32)
    return {"trained": np.asarray(graph.features) + 0, "untrained": noise, "raw": graph.features}


@pytest.fixture(scope="module")
def measured(random_graph: Graph) -> dict[str, Any]:
    return evaluate_run(random_graph, vectors_of(random_graph), ring_lists(WholeGraph(), random_graph, QUICK), QUICK)


@pytest.fixture
def metrics(measured: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(measured)


def test_figures_carry_the_agreed_names_and_their_protocol(metrics: dict[str, Any]) -> None:
    probe, protocol = metrics["probe"], metrics["probe"]["protocol"]
    for method in ("trained", "untrained", "raw"):
        for figure in ("val_mean", "val_std", "test_mean", "test_std"):
            assert 0 <= probe[method][figure] <= 1
    assert 0 <= metrics["clusters"]["nmi"] <= 1
    assert len(metrics["rings"]["similarity"]) == 3
    for section, figure in (("clusters", "nmi"), ("search", "sim_at_5"), ("rings", "similarity")):
        assert {f"{figure}_untrained", f"{figure}_raw"} <= set(metrics[section])
        assert metrics[section]["protocol"]
    assert (protocol["kind"], protocol["num_splits"], protocol["initialisations"]) == ("random", 2, 3)
    assert protocol["counts"] == {"train": 6, "val": 6, "test": 44}
    assert protocol["weight_decays"] == QUICK.probe_weight_decay
    assert probe["trained"]["weight_decay"] in QUICK.probe_weight_decay
    assert [split["name"] for split in probe["splits"]] == ["random_0.1_0", "random_0.1_1"]
    assert metrics["missing"] == {}
    assert flaw_of_metrics(json.loads(json.dumps(metrics, allow_nan=False))) == ""


def test_informative_vectors_are_far_above_noise(metrics: dict[str, Any]) -> None:
    assert metrics["probe"]["trained"]["test_mean"] > metrics["probe"]["untrained"]["test_mean"] + 0.2
    assert 1 >= metrics["search"]["sim_at_5"] > metrics["search"]["sim_at_5_untrained"] + 0.2
    assert metrics["probe"]["trained"] == metrics["probe"]["raw"]


def test_each_figure_has_a_progress_of_its_own(random_graph: Graph) -> None:
    class Watched(Console):
        def progress(self, label: str, total: int, *_: object) -> Any:  # type: ignore[override]  # of two, the rest is not asked for
            done.append([label, total, 0])

            def advance() -> None:
                done[-1][2] += 1

            return nullcontext(advance)

    done: list[list[Any]] = []
    rings = ring_lists(WholeGraph(), random_graph, QUICK)
    evaluate_run(random_graph, vectors_of(random_graph), rings, QUICK, console=Watched(quiet=True))
    assert done == [[f"evaluate, {figure}", 3, 3] for figure in ("probe", "clusters", "search", "rings")]


def test_every_train_fraction_has_its_figures_and_the_first_is_the_probe(random_graph: Graph) -> None:
    config = QUICK.model_copy(update={"train_fractions": [0.1, 0.3]})
    metrics = evaluate_run(random_graph, vectors_of(random_graph), None, config)
    assert list(metrics["probe_by_fraction"]) == ["0.1", "0.3"]
    assert metrics["probe_by_fraction"]["0.1"] == metrics["probe"]
    assert metrics["missing"] == {"rings": "no ring samples were given"}


def test_a_graph_without_labels_gets_what_needs_none_and_the_reason(make_graph: Callable[..., Graph]) -> None:
    graph = make_graph(30, [(a, (a + 1) % 30) for a in range(30)])
    metrics = evaluate_run(graph, vectors_of(graph), ring_lists(WholeGraph(), graph, QUICK), QUICK)
    assert not {"probe", "clusters", "search"} & set(metrics)
    assert set(metrics["missing"].values()) == {"the graph has no labels"}
    assert metrics["rings"]["similarity"]
    assert metrics["spread"]["trained"]["effective_rank"] >= 1
    _, rows, remarks = figures_table(metrics)
    assert rows == []
    assert "Not measured: accuracy, NMI and Sim@5, because the graph has no labels." in remarks


def test_vectors_that_are_not_finite_or_too_few_are_refused(random_graph: Graph) -> None:
    vectors = vectors_of(random_graph)
    vectors["trained"][17, 2] = np.nan
    with pytest.raises(RunError, match="trained vectors are not finite, first at node 17"):
        evaluate_run(random_graph, vectors, None, QUICK)
    with pytest.raises(RunError, match="have 3 rows, expected one for each of the 60 nodes"):
        evaluate_run(random_graph, {"trained": vectors["untrained"][:3]}, None, QUICK)


def test_the_table_has_a_row_for_each_method_and_words_beneath(metrics: dict[str, Any]) -> None:
    headers, rows, remarks = figures_table(metrics)
    assert headers == ["", "validation %", "test %", "NMI", "Sim@5"]
    assert [row[0] for row in rows] == ["input features", "untrained encoder", "trained encoder"]
    assert any("2 random splits" in remark for remark in remarks)


def test_a_probe_that_ends_too_early_is_told(metrics: dict[str, Any]) -> None:
    for split, step in zip(metrics["probe"]["splits"], (40, 46), strict=True):
        for name, best in (("trained", 42), ("untrained", step), ("raw", 50)):  # of 50 steps
            split[name]["best_epoch_mean"] = best
    (found,) = [words for words in warnings_of(metrics) if "still getting better" in words]
    assert "its 50 steps ended (best at step, on average: input features 50, untrained encoder 43)" in found
    metrics["probe"]["raw"]["val_mean"] = None  # the last step counts where nothing is validated
    (found,) = [words for words in warnings_of(metrics) if "still getting better" in words]
    assert "raw" not in found
    for split in metrics["probe"]["splits"]:
        split["untrained"]["best_epoch_mean"] = 42
    assert "still getting better" not in " ".join(warnings_of(metrics))


def test_repeats_are_combined_to_means_with_errors(metrics: dict[str, Any], random_graph: Graph) -> None:
    rings = ring_lists(WholeGraph(), random_graph, QUICK)
    other = evaluate_run(random_graph, vectors_of(random_graph), rings, QUICK.model_copy(update={"seed": 1}))
    merged = combine_repeats([metrics, other])
    means = [one["probe"]["untrained"]["test_mean"] for one in (metrics, other)]
    assert merged["probe"]["untrained"]["test_mean"] == pytest.approx(np.mean(means))
    assert merged["probe"]["untrained"]["test_se"] == pytest.approx(abs(means[0] - means[1]) / 2)
    deviations = [one["probe"]["untrained"]["test_std"] for one in (metrics, other)]
    between = (means[0] - means[1]) ** 2 / 2  # of two values, with n - 1
    expected = np.sqrt(np.mean(np.square(deviations)) + between)
    assert merged["probe"]["untrained"]["test_std"] == pytest.approx(expected)
    nmi = [one["clusters"]["nmi_untrained"] for one in (metrics, other)]
    assert merged["clusters"]["nmi_untrained_se"] == pytest.approx(abs(nmi[0] - nmi[1]) / 2)
    assert merged["probe"]["protocol"] == metrics["probe"]["protocol"]
    assert merged["repeats"]["count"] == 2
    assert merged["repeats"]["seeds"] == [0, 1]
    assert set(merged) == {*metrics, "repeats"}
    same = combine_repeats([metrics, metrics])["probe"]["raw"]
    assert same["test_std"] == pytest.approx(metrics["probe"]["raw"]["test_std"])
    assert same["test_se"] == 0
    figures_table(merged)


@pytest.mark.parametrize("factor", [1e-30, 1e-15, 1e15, 1e30])
def test_figures_of_tiny_and_huge_vectors_are_those_of_vectors_near_one(
    measured: dict[str, Any], random_graph: Graph, factor: float
) -> None:
    vectors = {name: (rows * np.float64(factor)).astype(np.float32) for name, rows in vectors_of(random_graph).items()}
    found = evaluate_run(random_graph, vectors, ring_lists(WholeGraph(), random_graph, QUICK), QUICK)
    for name in ("trained", "untrained", "raw"):
        assert found["probe"][name]["test_mean"] == pytest.approx(measured["probe"][name]["test_mean"], abs=0.01)
        assert found["spread"][name] == pytest.approx(measured["spread"][name], rel=1e-4)
    for name in ("", "_untrained", "_raw"):
        assert found["clusters"]["nmi" + name] == pytest.approx(measured["clusters"]["nmi" + name], abs=0.01)
        assert found["search"]["sim_at_5" + name] == pytest.approx(measured["search"]["sim_at_5" + name], abs=0.01)
        assert found["rings"]["similarity" + name] == pytest.approx(measured["rings"]["similarity" + name], abs=1e-4)


@pytest.mark.parametrize(("initialisations", "told"), [(20, True), (1, False)])
def test_a_probe_that_takes_long_is_told_before_it_starts_with_what_makes_it_faster(
    random_graph, monkeypatch, capfd, initialisations, told
):
    monkeypatch.setattr(run, "_MANY_ROWS", 100)
    config = EvaluateConfig(initialisations=initialisations, probe_epochs=1, random_splits=2)
    evaluate_run(random_graph, {"raw": random_graph.features}, None, config, console=Console())
    err = capfd.readouterr().err
    assert ("from 20 initialisations; --set evaluate.initialisations=2 is about 10 times as fast" in err) == told
