"""What the gate lets through."""

import pytest

from gscl_scale.config.retrain import GateConfig
from gscl_scale.errors import FolderError
from gscl_scale.registry.versions import Figures, refusal_of
from gscl_scale.retrain.gate import figures_of, judge

GATE = GateConfig()
NOW = Figures(probe=0.90, ranking=0.80, alignment=None, norm=2.0, cosine=0.3, rank=20.0)
NEW = Figures(**{**NOW, "alignment": 0.9})


def refusal(changes, current=NOW):
    return refusal_of(judge({**NEW, **changes}, current, GATE))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"probe": 0.8799}, "validation score of the probe is 0.8799, expected at least 0.8800"),
        ({"ranking": 0.7799}, "ring-ranking accuracy is 0.7799, expected at least 0.7800"),
        ({"alignment": 0.49}, "alignment with the current embeddings is 0.4900, expected at least 0.5000"),
        ({"cosine": 0.98}, "mean cosine of random pairs is 0.9800, expected at most 0.9700"),
        ({"rank": 9.9}, "effective rank is 9.9000, expected at least 10.0000"),
        ({"norm": 8.1}, "median length of the embeddings is 4.05 times that of the current version"),
        ({"norm": 0.49}, "median length of the embeddings is 0.245 times that of the current version"),
    ],
)
def test_a_figure_that_fell_too_far_is_named_alone(change, named):
    assert refusal(change).startswith(named)
    assert ";" not in refusal(change)


def test_figures_at_the_limits_pass():
    least = {"probe": 0.90 - 0.02, "ranking": 0.80 - 0.02, "alignment": 0.5, "cosine": 0.97, "rank": 10.0, "norm": 8.0}
    assert refusal({}) == refusal(least) == ""
    assert len(judge(NEW, NOW, GATE)) == 7


def test_without_a_current_version_only_collapse_and_chance_are_refused():
    assert refusal({"probe": 0.1}, None) == ""
    assert "expected at least 0.5500 (gate.ranking_least)" in refusal({"ranking": 0.5}, None)
    assert refusal({"cosine": 0.99}, None)


def test_a_figure_that_was_not_measured_has_no_condition():
    unmeasured = {"probe": None, "ranking": None, "alignment": None, "rank": None}
    assert [check["name"] for check in judge({**NEW, **unmeasured}, NOW, GATE)] == [
        "mean cosine of random pairs",
        "median length of the embeddings",
    ]
    assert refusal({}, {**NOW, "probe": None, "ranking": None, "rank": None}) == ""
    with pytest.raises(FolderError, match="the current version has no metrics to compare with"):
        judge(NEW, {}, GATE)


def test_figures_come_from_the_metrics_of_a_run():
    metrics = {
        "spread": {"trained": {"mean_cosine": 0.3, "effective_rank": 20.0}},
        "probe": {"trained": {"val_mean": 0.9}},
        "rings": {"ranking": {"accuracy": 0.8}},
        "links": {"trained": {"random": {"auc": 0.9}, "degree_matched": {"auc": 0.7}}},
    }
    assert figures_of(metrics, 2.0, 0.9) == {**NEW, "links": 0.7}
    assert figures_of({"spread": metrics["spread"]}, 2.0)["probe"] is None
