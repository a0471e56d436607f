from pathlib import Path
from typing import Any

import numpy as np

from gscl_scale.config.config import Config
from gscl_scale.report.compare_runs import write_comparison
from gscl_scale.report.run_data import RunData
from tests.report.test_report import CURVE, HOSTILE, Page, figures, metrics, statistics


def run_of(**changes: Any) -> RunData:
    found = {**metrics(), **changes.pop("metrics", {})}
    record = {"config": Config.parse(changes.pop("config", {})).dump()}
    return RunData(metrics=found, statistics=statistics(), curve=CURVE, record=record, **changes)


def compare(path: Path, runs: dict[str, RunData], overlap: Any = None) -> Page:
    write_comparison(path, runs, overlap)
    return Page(path.read_text(encoding="utf-8"))


def better() -> dict[str, Any]:
    return {"probe": {**metrics()["probe"], "trained": figures(0.9, 0.88)}}


def test_the_better_run_its_figures_and_what_differs_are_told(tmp_path: Path) -> None:
    runs = {"first": run_of(), "second": run_of(metrics=better(), config={"train": {"epochs": 7}})}
    page = compare(tmp_path / "c.html", runs, np.array([[1, 0.25], [0.25, 1]]))
    for words in (
        "second reaches the highest test accuracy, 88.00 %, 3.88 points above the next.",
        "84.12 ± 0.30",
        "train.epochs",
        "25.0 %",
        "9.5",
    ):
        assert words in page.text
    assert "rings.hops" not in page.text
    assert "Take care" not in page.text
    assert "first from" in str(page.all("svg")[0]["aria-label"])


def test_runs_of_other_graphs_or_protocols_are_not_ranked(tmp_path: Path) -> None:
    other_graph = run_of(metrics={"graph": {"name": "toy", "nodes": 100, "fingerprint": "xyz"}})
    probe = metrics()["probe"]
    other_seed = run_of(metrics={"probe": {**probe, "protocol": {**probe["protocol"], "seed": 9}}})
    for other, words in ((other_graph, "not of the same graph"), (other_seed, "splits, seeds or settings")):
        page = compare(tmp_path / "c.html", {"first": run_of(), "second": other})
        assert "These runs cannot be ranked" in page.text
        assert words in page.text


def test_runs_without_labels_and_hostile_names_are_compared(tmp_path: Path) -> None:
    bare = {key: value for key, value in metrics().items() if key not in ("probe", "clusters", "search", "rings")}
    runs = {name: RunData(metrics=bare, statistics=statistics()) for name in (HOSTILE, "second")}
    page = compare(tmp_path / "c.html", runs)
    assert "Fewer than two of these runs have a test accuracy" in page.text
    assert page.text.count(HOSTILE) >= 1
    assert page.all("script") == []


def linked(auc: float, **protocol: Any) -> RunData:
    bare = {key: value for key, value in metrics().items() if key not in ("probe", "clusters", "search", "rings")}
    task = {"auc": auc, "average_precision": 0.9, "hits_at_10": 0.8, "mrr": 0.5}
    measured = {"edges": 10, "test": 10, "validation": 9, "sampled": False, "non_edges": 100, "score": "cosine"}
    links = {name: {"random": task, "degree_matched": task} for name in ("trained", "adamic_adar")}
    found: Any = {**bare, "links": {**links, "protocol": {**measured, "seed": 0, **protocol}}}
    return RunData(metrics=found, statistics=statistics())


def test_runs_without_labels_are_ranked_by_held_out_edges_measured_alike(tmp_path: Path) -> None:
    page = compare(tmp_path / "c.html", {"first": linked(0.8), "second": linked(0.9)})
    words = (
        "second reaches the highest AUC of held-out edges against nodes drawn by degree, 90.00 %, 10.00 points above"
    )
    assert words in page.text
    page = compare(tmp_path / "c.html", {"first": linked(0.8), "second": linked(0.9, seed=1)})
    assert "reaches the highest" not in page.text
