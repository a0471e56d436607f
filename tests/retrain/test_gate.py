"""What the gate lets through."""

from dataclasses import asdict, replace

import pytest

from gscl_scale.config.retrain import GateConfig
from gscl_scale.retrain.gate import Figures, judge

GATE = GateConfig()
NOW = Figures(probe=0.90, ranking=0.80, alignment=None, norm=2.0, cosine=0.3, rank=20.0)
NEW = replace(NOW, alignment=0.9)


def test_figures_like_those_of_the_current_version_pass():
    verdict = judge(NEW, NOW, GATE)
    assert verdict.passed
    assert verdict.reason == ""
    assert len(verdict.checks) == 7


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"probe": 0.8799}, "validation accuracy of the probe is 0.8799, at least 0.8800 is asked"),
        ({"ranking": 0.7799}, "ring-ranking accuracy is 0.7799, at least 0.7800 is asked"),
        ({"alignment": 0.49}, "alignment with the current embeddings is 0.4900, at least 0.5000 is asked"),
        ({"cosine": 0.98}, r"mean cosine of random pairs is 0.9800, at most 0.9700 is asked"),
        ({"rank": 9.9}, "effective rank is 9.9000, at least 10.0000 is asked"),
        ({"norm": 8.1}, "median length of the embeddings is 4.05 times that of the current version"),
        ({"norm": 0.49}, "median length of the embeddings is 0.245 times that of the current version"),
    ],
)
def test_a_figure_that_fell_too_far_is_named(change, named):
    verdict = judge(replace(NEW, **change), NOW, GATE)
    assert not verdict.passed
    assert verdict.reason.startswith(named)
    assert [check["holds"] for check in verdict.dump()].count(False) == 1


def test_figures_just_at_the_limits_pass():
    least = replace(NEW, probe=0.90 - 0.02, ranking=0.80 - 0.02, alignment=0.5, cosine=0.97, rank=10.0, norm=8.0)
    assert judge(least, NOW, GATE).passed


def test_without_a_current_version_only_collapse_and_chance_are_refused():
    first = replace(NOW, probe=0.1)
    assert judge(first, None, GATE).passed
    assert "at least 0.5500 is asked (gate.ranking_least)" in judge(replace(first, ranking=0.5), None, GATE).reason
    assert not judge(replace(first, cosine=0.99), None, GATE).passed


def test_what_was_not_measured_is_not_asked():
    blind = replace(NEW, probe=None, ranking=None, alignment=None, rank=None)
    assert [check.name for check in judge(blind, NOW, GATE).checks] == [
        "mean cosine of random pairs",
        "median length of the embeddings",
    ]
    assert judge(NEW, replace(NOW, probe=None, ranking=None, rank=None), GATE).passed


def test_figures_are_read_as_they_were_written():
    assert Figures.parse(asdict(NEW)) == NEW


def test_figures_come_from_the_metrics_of_a_run():
    metrics = {
        "spread": {"trained": {"mean_cosine": 0.3, "effective_rank": 20.0}},
        "probe": {"trained": {"val_mean": 0.9}},
        "rings": {"ranking": {"accuracy": 0.8}},
    }
    assert Figures.of(metrics, 2.0, 0.9) == NEW
    assert Figures.of({"spread": metrics["spread"]}, 2.0).probe is None
