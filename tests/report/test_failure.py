"""What a failed run is told: what failed, why, and what to do."""

from typing import Any

import pytest

from gscl_scale.evaluate.gain import gains
from gscl_scale.evaluate.summary import figures_table, warnings_of
from gscl_scale.report.failure import failure_of
from gscl_scale.report.run_data import RunData
from tests.report.test_report import CURVE, figures, metrics, render, statistics

CURE = "the features of a node are 2 columns that tell few nodes apart: use a new run folder (--run) and add --set x=1"
RISING = [{"step": step, "loss": 1 + step / 100} for step in range(50)]


def run_of(trained: float = 0.8412, curve: Any = CURVE, homophily: float = 0.8, **changes: Any) -> RunData:
    probe = {**metrics()["probe"], "trained": figures(0.85, trained)}
    found: Any = {**metrics(), "probe": probe, **changes}
    near = {**statistics()["consistency"], "mean": [homophily, 0.6, 0.3]}
    return RunData(metrics=found, statistics={**statistics(), "consistency": near}, curve=curve)


def ranked(reached: float, before: float) -> dict[str, Any]:
    ranking = {"ranking": {"accuracy": reached, "by_hop": []}, "ranking_untrained": {"accuracy": before, "by_hop": []}}
    return {"rings": {**metrics()["rings"], **ranking}}


def linked(trained: float, untrained: float, **more: float) -> dict[str, Any]:
    parts = {
        name: {"degree_matched": {"auc": auc, **more}} for name, auc in (("trained", trained), ("untrained", untrained))
    }
    return {"links": {**parts, "protocol": {"test": 400}}}


def test_a_run_that_gained_has_no_failure() -> None:
    assert failure_of(run_of()) is None


def test_a_gain_within_its_standard_error_is_none_and_one_above_it_is_one() -> None:
    error = gains(run_of(0.70).metrics)[0].error
    assert error == pytest.approx(0.003 * 2**0.5 / 20**0.5)
    assert failure_of(run_of(0.69 + 0.9 * error))
    assert failure_of(run_of(0.69 + 1.1 * error)) is None


@pytest.mark.parametrize(
    ("run", "words", "cause", "cure"),
    [
        (
            run_of(spread={"trained": {"mean_cosine": 0.999, "effective_rank": 1.0}}, cure=CURE),
            "the embeddings have collapsed",
            "nearly all vectors point the same way (mean cosine of random pairs 0.999, effective "
            "rank 1.0); the features of",
            "use a new run folder (--run) and add --set x=1",
        ),
        (
            run_of(spread={"trained": {"mean_cosine": 0.999, "effective_rank": 1.0}}),
            "have collapsed",
            "nearly all vectors",
            "--set model.width=64",
        ),
        (
            run_of(0.6, RISING),
            "no gain",
            "is 9.00 ± 0.09 points below the untrained encoder; the loss did not fall",
            "another train.learning_rate",
        ),
        (
            run_of(0.6905),
            "it is not known whether training helped",
            "0.05 ± 0.09 points above the untrained encoder; a gain within its",
            "--set train.repeats=5",
        ),
        (
            run_of(0.6, **ranked(0.9, 0.8)),
            "no gain",
            "neighbourhoods are ranked better than before (90.0 % of pairs, 80.0 % before training)",
            "rings.hops",
        ),
        (run_of(0.6, **ranked(0.7, 0.8)), "no gain", "did not learn to rank neighbourhoods", "train.learning_rate"),
        (
            run_of(0.5),
            "no gain",
            "is 19.00 ± 0.09 points below the untrained encoder and 8.00 ± 0.09 below input features; ",
            "",
        ),
    ],
    ids=["collapsed", "no cure known", "loss", "chance", "labels", "ranking", "both"],
)
def test_a_failure_has_its_likeliest_cause_and_a_cure(run: RunData, words: str, cause: str, cure: str) -> None:
    failure = failure_of(run)
    assert failure
    assert words in failure.what
    assert cause in failure.cause
    assert cure in failure.cure
    assert failure.certain == ("not known" not in words)


@pytest.mark.parametrize(
    ("homophily", "cause"), [(0.2, "only 20 % of a node's neighbours"), (0.9, "the features alone")]
)
def test_raw_features_that_do_better_are_explained_by_homophily(homophily: float, cause: str) -> None:
    probe = {**metrics()["probe"], "raw": figures(0.95, 0.95)}
    failure = failure_of(run_of(homophily=homophily, probe=probe))
    assert failure
    assert failure.what == "training brought no gain"
    assert failure.cause.startswith("test accuracy is 10.88 ± 0.09 points below input features; ")
    assert cause in failure.cause
    assert "model.layers=1" in failure.cure


def without_labels(**changes: Any) -> RunData:
    found: Any = {key: value for key, value in {**metrics(), **changes}.items() if key != "probe"}
    return RunData(metrics=found, statistics=statistics(), curve=CURVE)


def test_without_labels_held_out_edges_count_and_without_these_the_ranking() -> None:
    for measured, words in ((linked(0.7, 0.8), "AUC of held-out edges"), (ranked(0.7, 0.8), "ranking accuracy")):
        failure = failure_of(without_labels(**measured))
        assert failure
        assert failure.cause.startswith(f"{words} is 10.00 ± ")
        assert "points below the untrained encoder" in failure.cause
        assert ("evaluate.held_out_edges=0.1" in failure.cure) == (words == "ranking accuracy")
    assert failure_of(without_labels(**linked(0.9, 0.8))) is None
    assert failure_of(without_labels(**ranked(0.95, 0.8))) is None
    unclear = failure_of(without_labels(**linked(0.81, 0.8)))
    assert unclear
    assert not unclear.certain
    assert "--set evaluate.held_out_edges=0.3" in unclear.cure
    assert gains(without_labels(**linked(0.7, 0.8, auc_se=0.3)).metrics)[0].error == pytest.approx(0.3 * 2**0.5)


def test_the_terminal_has_the_ranking_and_its_warnings_where_no_other_figure_tells() -> None:
    found = without_labels(**ranked(0.7, 0.8)).metrics
    words = "the nearer one is the more similar one (50 % is chance): "
    told = "\n".join(figures_table(found)[2])
    assert words in told
    assert "trained encoder 70.00 %" in told
    assert (
        told.count("neighbourhoods are ranked no better than by the untrained encoder (70.0 % of pairs against 80") == 1
    )
    below_raw: Any = {**found, "rings": {**found["rings"], "ranking_raw": {"accuracy": 0.75, "by_hop": [0.75]}}}
    assert "ranked no better than by the input features (70.0 % of pairs against 75.0 %)" in "".join(
        warnings_of(below_raw)
    )
    with_labels: Any = {**below_raw, "probe": metrics()["probe"]}
    assert "by the input features (70.0" not in "".join(warnings_of(with_labels))
    assert words not in "".join(figures_table(with_labels)[2])


def test_the_head_of_the_page_of_a_failed_run_has_it_and_the_box_below_does_not_repeat_it(tmp_path) -> None:
    probe = {**metrics()["probe"], "trained": figures(0.6, 0.6)}
    text, page = render(tmp_path / "report.html", metrics={**metrics(), "probe": probe})
    assert page.all("header") == [{"class": "bad"}]
    for words in ("Cause", "Cure", "Training brought no gain. The embeddings reach 60.00 %"):
        assert words in page.text
    assert text.lower().count("brought no gain") == 1
    unclear = {**metrics()["probe"], "trained": figures(0.7, 0.6905)}
    _, page = render(tmp_path / "report.html", metrics={**metrics(), "probe": unclear})
    assert page.all("header") == [{"class": "bad unsure"}]
    _, page = render(tmp_path / "report.html")
    assert page.all("header") == [{"class": "head"}]
    assert "Cure" not in page.text
