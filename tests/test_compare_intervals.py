"""Paired differences of a comparison, by figures that are written by hand and by runs of two seeds."""

import pytest

from gscl_scale.config.config import Config
from gscl_scale.io.json import read_json
from gscl_scale.report.compare_intervals import interval_remarks
from gscl_scale.report.compare_methods import comparison_page
from gscl_scale.studies.compare import compare
from gscl_scale.studies.paired import Pairing, with_intervals
from tests.test_compare import QUIET, VALUES

FIXED, PUBLISHED, RANDOM = Pairing(True, True, 0.5), Pairing(False, True, 0.5), Pairing(False, False, 8.0)
SEEDS = {
    "raw": {"5": {"a": 0.50, "b": 0.52}, "6": {"a": 0.51, "b": 0.50}},
    "dgi": {"5": {"a": 0.70, "b": 0.71}, "6": {"a": 0.72, "b": 0.70}},
    "gscl-pairwise": {"5": {"a": 0.80, "b": 0.84}, "6": {"a": 0.80, "b": 0.82}},
    "gscl-listwise": {"5": {"a": 0.90, "b": 0.92}, "6": {"a": 0.91, "b": 0.92}},
    "supervised": {"5": {"a": 0.60}, "6": {"b": 0.65}},
}
VALIDATION = {"raw": 0.6, "dgi": 0.7, "gscl-pairwise": 0.8, "gscl-listwise": 0.75, "supervised": 0.65}


def rows_with(pairing, by_split=SEEDS, **validation):
    values = {**VALIDATION, **validation}
    rows = [{"method": name, "title": name.upper(), "val_mean": values[name]} for name in by_split]
    return {row["method"]: row for row in with_intervals(rows, by_split, pairing)}


def test_each_row_is_compared_with_the_best_of_the_others_by_validation_nodes():
    rows = rows_with(RANDOM)
    assert {name: row["against"]["method"] for name, row in rows.items()} == {
        "raw": "gscl-pairwise", "dgi": "gscl-pairwise", "supervised": "gscl-pairwise",
        "gscl-pairwise": "dgi", "gscl-listwise": "dgi",
    }  # fmt: skip
    assert rows_with(RANDOM, raw=0.9)["gscl-listwise"]["against"]["method"] == "raw"
    without = rows_with(RANDOM, {name: of for name, of in SEEDS.items() if not name.startswith("gscl")})
    assert {name: row["against"]["method"] for name, row in without.items()} == {
        "raw": "dgi", "dgi": "supervised", "supervised": "dgi"
    }  # fmt: skip


def test_differences_are_paired_by_seed_and_split_and_a_seed_alone_is_paired_with_its_own():
    against = rows_with(RANDOM)["dgi"]["against"]
    assert against["difference"] == pytest.approx((-0.10 - 0.13 - 0.08 - 0.12) / 4)
    assert against["n"] == 4
    assert against["low"] < against["difference"] < against["high"]
    supervised = rows_with(RANDOM)["supervised"]["against"]
    assert (supervised["difference"], supervised["n"]) == (pytest.approx((-0.20 - 0.17) / 2), 2)
    later = {"6": SEEDS["dgi"]["6"]}
    fewer = rows_with(RANDOM, {**SEEDS, "dgi": later})["dgi"]
    assert (fewer["against"]["difference"], fewer["against"]["n"]) == (pytest.approx(-0.10), 2)
    assert fewer["test_by_split"] == later


def test_on_published_splits_the_splits_count_and_on_one_split_the_seeds():
    assert rows_with(PUBLISHED)["dgi"]["against"]["n"] == 2  # both seeds have them
    one = {name: {seed: {"a": on.get("a", 0.6)} for seed, on in of.items()} for name, of in SEEDS.items()}
    fixed = rows_with(FIXED, one)["dgi"]
    assert fixed["interval"]["n"] == fixed["against"]["n"] == 2
    alone = rows_with(FIXED, {name: {"5": of["5"]} for name, of in one.items()})["dgi"]
    assert "interval" not in alone
    assert "against" not in alone
    assert alone["test_by_split"] == {"5": {"a": 0.70}}


def test_a_figure_that_is_missing_is_paired_with_none_and_a_failed_row_has_nothing():
    rows = rows_with(RANDOM, {**SEEDS, "dgi": {**SEEDS["dgi"], "5": {"a": None, "b": 0.71}}, "raw": {}})
    assert rows["dgi"]["against"]["n"] == 3
    assert "test_by_split" not in rows["raw"]


@pytest.mark.parametrize(
    ("kind", "splits", "labels", "way", "ratio"),
    [
        ("published", 1, {}, "t over seeds", 0.0),
        ("published", 2, {}, "corrected resampled t", 80 / 10),
        ("random", 1, {}, "corrected resampled t", 80 / 10),
        ("random", 2, {"labels": 5}, "corrected resampled t", 80 / 30),
    ],
)
def test_the_protocol_decides_the_interval_and_the_nodes_that_the_probe_learns_from_the_correction(
    kind, splits, labels, way, ratio
):
    counts = {"train": 10, "val": 20, "test": 80}
    found = Pairing.of({"kind": kind, "num_splits": splits, "counts": counts, **labels}).protocol()
    assert (found["way"], found["test_per_train"]) == (way, pytest.approx(ratio))


def test_what_differs_significantly_is_named_and_what_does_not():
    by_split = {**SEEDS, "raw": {"5": {"a": 0.50, "b": 0.52}, "6": {"a": 0.90, "b": 0.95}}}
    (sentence,) = interval_remarks(list(rows_with(PUBLISHED, by_split).values()), PUBLISHED.protocol())
    assert sentence.startswith("Paired differences at 95 % (corrected resampled t): ")
    assert "; not significant: RAW, " in sentence
    often = {name: {f"{seed}{n}": on for seed, on in of.items() for n in range(9)} for name, of in SEEDS.items()}
    (sentence,) = interval_remarks(list(rows_with(Pairing(False, False, 0.1), often).values()), RANDOM.protocol())
    assert "DGI -10.75 against GSCL-PAIRWISE" in sentence
    wide = {"dgi": SEEDS["dgi"], "raw": {"5": {"a": 0.1, "b": 0.9}, "6": {"a": 0.9, "b": 0.1}}}
    rows = rows_with(PUBLISHED, wide)
    (sentence,) = interval_remarks(list(rows.values()), PUBLISHED.protocol())
    reach = 50 * (rows["raw"]["against"]["high"] - rows["raw"]["against"]["low"])
    assert reach > 10
    assert sentence.endswith(
        f": none is significant; the intervals reach ±{reach:.1f} points, and smaller differences may be chance."
    )
    (sentence,) = interval_remarks([{"title": "DGI"}], FIXED.protocol())
    assert "raise train.repeats" in sentence
    alone = {"title": "DGI", "interval": {"error": 0.1, "low": 0.1, "high": 0.5, "n": 4}}
    assert interval_remarks([alone], FIXED.protocol()) == []


def test_a_comparison_stores_every_figure_by_split_and_its_page_has_the_intervals(tmp_path):
    config = Config.parse({**VALUES, "train": {**VALUES["train"], "repeats": 2}})
    result = compare(config, tmp_path / "run", ["dgi", "supervised", "gscl-listwise", "spectral"], QUIET)
    assert result == read_json(tmp_path / "run/compare.json")
    rows = {row["method"]: row for row in result["methods"]}
    assert result["intervals"]["way"] == "corrected resampled t"
    for name, row in rows.items():
        stored = row["test_by_split"]
        values = [value for one in stored.values() for value in one.values()]
        assert sum(values) / len(values) == pytest.approx(row["test_mean"])
        assert {seed: list(one) for seed, one in stored.items()} == (
            {"0": ["random_0.2_0"], "1": ["random_0.2_1"]}
            if name == "supervised"
            else {seed: ["random_0.2_0", "random_0.2_1"] for seed in "01"}
        )
        assert 0 <= row["interval"]["low"] <= row["test_mean"] <= row["interval"]["high"] <= 1
        other = rows[row["against"]["method"]]["test_by_split"]
        pairs = [(one[split], other[seed][split]) for seed, one in stored.items() for split in one.keys() & other[seed]]
        assert row["against"]["difference"] == pytest.approx(sum(a - b for a, b in pairs) / len(pairs))
        assert row["against"]["n"] == len(pairs)
    page = comparison_page(result)
    assert "## Intervals" in page
    alone = "With one seed the spread between trainings is not covered."
    assert (alone in page, alone in comparison_page({**result, "seeds": [0]})) == (False, True)
    ours = rows["gscl-listwise"]
    assert f"| DGI | {100 * rows['dgi']['interval']['low']:.2f} to " in page
    assert f"| {ours['against']['title']} | {100 * ours['against']['difference']:+.2f} |" in page
    assert f"with {result['intervals']['test_per_train']:.2f} test nodes for each training node" in page
