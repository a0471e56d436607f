from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gscl_scale.config.config import Config
from gscl_scale.config.evaluate import EvaluateConfig
from gscl_scale.errors import ConfigError
from gscl_scale.evaluate.splits import Split, _random, make_splits, why_no_splits
from gscl_scale.graph.graph import Graph


def test_random_splits_cover_the_labelled_nodes_and_no_other(random_graph: Graph) -> None:
    splits = make_splits(random_graph, EvaluateConfig(train_fractions=[0.1, 0.3], random_splits=3))
    assert [split.name for split in splits] == [f"random_{part}_{n}" for part in ("0.1", "0.3") for n in range(3)]
    for split in splits:
        assert split.codes.dtype == np.int8
        np.testing.assert_array_equal(split.codes > 0, random_graph.labels >= 0)
        assert split.counts()["train"] == round(split.fraction * 56)
        assert split.counts()["val"] == 6


def test_a_training_that_learns_labels_is_measured_on_one_split_of_the_first_fraction(random_graph: Graph) -> None:
    config = EvaluateConfig(train_fractions=[0.1, 0.3], random_splits=3)
    assert [make_splits(random_graph, config, label_seed=seed)[0].name for seed in range(5)] == [
        f"random_0.1_{number}" for number in (0, 1, 2, 0, 1)
    ]


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans())))
def test_only_test_nodes_are_taken_out_of_a_split(nodes: list[tuple[int, bool]]) -> None:
    codes, out = np.array([code for code, _ in nodes], np.int8), np.array([left for _, left in nodes], np.bool_)
    split = Split("made", None, codes).without(out)
    assert split.codes.tolist() == [0 if code == 3 and left else code for code, left in nodes]
    assert split.left_out == nodes.count((3, True))
    assert split.is_measurable == (split.left_out == 0 or nodes.count((3, False)) >= 10)


def test_random_splits_depend_on_the_seed_and_on_nothing_else(random_graph: Graph) -> None:
    def codes(**settings: object) -> list[bytes]:
        return [split.codes.tobytes() for split in make_splits(random_graph, EvaluateConfig(**settings))]

    assert codes(seed=3) == codes(seed=3)
    assert codes(seed=3) != codes(seed=4)
    assert len(set(codes(seed=3))) == 5
    assert codes(train_fractions=[0.2, 0.1])[5:] == codes(train_fractions=[0.1])


@given(
    labelled=st.integers(10, 200),
    train=st.floats(0.001, 0.98),
    val=st.floats(0.001, 0.98),
)
@example(labelled=10, train=0.001, val=0.98)
@example(labelled=10, train=0.98, val=0.001)
def test_every_random_split_has_train_val_and_test_nodes(labelled: int, train: float, val: float) -> None:
    if train + val >= 0.999:
        return
    graph = type("Labels", (), {"labelled": np.ones(labelled, bool), "num_nodes": labelled})()
    config = EvaluateConfig(train_fractions=[train], val_fraction=val, random_splits=1)
    (split,) = _random(graph, config)
    assert min(split.counts().values()) >= 1
    assert sum(split.counts().values()) == labelled


def test_shares_that_leave_no_test_nodes_are_refused_by_the_configuration() -> None:
    with pytest.raises(ConfigError, match=r"^evaluate: .*leave no test nodes"):
        Config.parse({"evaluate": {"train_fractions": [0.5], "val_fraction": 0.5}})


def test_published_splits_are_used_where_there_are_some_without_their_unlabelled_nodes(
    make_graph: Callable[..., Graph],
) -> None:
    labels = np.array([0, 1, 0, -1, 1, 0])
    codes = np.array([1, 1, 2, 2, 3, 0], np.int8)
    useless = np.array([1, 1, 1, 0, 0, 0], np.int8)
    graph = make_graph(6, [(0, 1)], labels=labels, splits={"public": codes, "no test": useless})
    (split,) = make_splits(graph, EvaluateConfig())
    assert (split.name, split.fraction, split.codes.tolist()) == ("public", None, [1, 1, 2, 0, 3, 0])
    assert make_splits(graph, EvaluateConfig(split="random")) == []


@pytest.mark.parametrize(
    ("labels", "settings", "reason"),
    [
        (None, {}, "the graph has no labels"),
        (np.full(12, -1), {}, "the graph has no labels"),
        (np.zeros(12, np.int64), {}, "all labelled nodes are of one class"),
        (np.array([0, 1] + [-1] * 10), {}, "only 2 nodes have a label"),
        (np.arange(12) % 2, {"split": "published"}, "has no split"),
        (np.arange(12), {}, "each labelled node has a class of its own"),
    ],
)
def test_unusable_labels_give_no_splits_and_a_reason(
    make_graph: Callable[..., Graph], labels: np.ndarray | None, settings: dict[str, str], reason: str
) -> None:
    graph = make_graph(12, [(0, 1)], labels=labels)
    config = EvaluateConfig(**settings)
    assert make_splits(graph, config) == []
    assert reason in why_no_splits(graph, config)
