from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gscl_scale.config.config import Config
from gscl_scale.graph.draft import GraphDraft, write_graph
from gscl_scale.report.agreement import differing_parts, have_same_nodes
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
    less: Any = {"num_splits": 2, "counts": {"train": 1000, "val": 1000, "test": 7}}
    fewer = run_of(metrics={"probe": {**probe, "protocol": {**probe["protocol"], **less}}})
    for other, words in (
        (other_graph, "they differ in nodes, labels, splits"),
        (other_seed, "they differ in splits: 0 and 9 as seed."),
        (
            fewer,
            "they differ in splits: 1,000 / 1,000 / 8,000 and 1,000 / 1,000 / 7 train / validation / test nodes, "
            "5 and 2 splits.",
        ),
    ):
        page = compare(tmp_path / "c.html", {"first": run_of(), "second": other})
        assert "These runs cannot be ranked" in page.text
        assert words in page.text
        assert "tuned_on" not in page.text


def test_a_run_with_settings_of_a_search_comes_with_the_command_that_makes_others_comparable(tmp_path: Path) -> None:
    probe = metrics()["probe"]
    less = {"probe": {**probe, "protocol": {**probe["protocol"], "counts": {"train": 1000, "val": 1000, "test": 7}}}}
    config = {"evaluate": {"tuned_on": [{"seed": 3}]}, "train": {"learning_rate": 0.0012987012975410037}}
    page = compare(tmp_path / "c.html", {"runs/old one": run_of(), "best": run_of(metrics=less, config=config)})
    command = "gscl-scale evaluate --run 'runs/old one' --set 'evaluate.tuned_on=[{seed: 3}]'; then write this page"
    assert command in page.text
    assert "gscl-scale evaluate --run best" not in page.text
    for words in ("0.0012987", "seed: 3; learnt: none"):
        assert words in page.text
    assert "{'" not in page.text
    assert "0.00129870" not in page.text


def test_runs_without_labels_and_hostile_names_are_compared(tmp_path: Path) -> None:
    bare = {key: value for key, value in metrics().items() if key not in ("probe", "clusters", "search", "rings")}
    runs = {name: RunData(metrics=bare, statistics=statistics()) for name in (HOSTILE, "second")}
    page = compare(tmp_path / "c.html", runs)
    assert "Fewer than two of these runs have a test accuracy" in page.text
    assert page.text.count(HOSTILE) >= 1
    assert page.all("script") == [{}]


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


def graph_run(
    folder: Path, edges: list[tuple[int, int]], features: int = 2, classes: str = "xyxyx", **changes: Any
) -> RunData:
    """A run on five nodes with these edges, features and classes."""
    sources, targets = (np.array(ends) for ends in zip(*edges, strict=True))
    draft = GraphDraft(
        name="five", origin="memory", num_nodes=5, edges=[(sources, targets)],
        features=np.ones((5, features), np.float32), labels=np.array(list(classes), object),
    )  # fmt: skip
    graph = write_graph(draft, Config.parse({"graph": {"source": "memory"}}).graph, folder)
    return run_of(graph=graph, **changes)


PATH, CYCLE = [(0, 1), (1, 2), (2, 3), (3, 4)], [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]


def test_runs_of_the_same_nodes_labels_and_splits_are_ranked_though_edges_features_and_settings_differ(
    tmp_path: Path,
) -> None:
    first = graph_run(tmp_path / "a", PATH)
    second = graph_run(
        tmp_path / "b",
        CYCLE,
        features=70,
        metrics=better(),
        config={"train": {"epochs": 7}},
    )
    assert have_same_nodes([first, second])
    page = compare(tmp_path / "c.html", {"first": first, "second": second})
    for words in (
        "second reaches the highest test accuracy",
        "Parts of the graphs that differ",
        "The same in all runs: nodes, labels, splits.",
        "Ranking accuracy and links are measured on the edges of each run, which differ.",
        "train.epochs",
    ):
        assert words in page.text
    assert "cannot" not in page.text
    assert differing_parts({"first": first, "second": second}) == ["edges", "features"]


def test_runs_of_other_labels_are_not_ranked(tmp_path: Path) -> None:
    first, second = graph_run(tmp_path / "a", PATH), graph_run(tmp_path / "b", PATH, classes="xyxyy")
    page = compare(tmp_path / "c.html", {"first": first, "second": second})
    assert "These runs cannot be ranked, because they differ in labels." in page.text


def test_another_probe_on_the_same_splits_is_told(tmp_path: Path) -> None:
    probe = metrics()["probe"]
    longer = run_of(metrics={"probe": {**probe, "protocol": {**probe["protocol"], "epochs": 900}}})
    page = compare(tmp_path / "c.html", {"first": run_of(), "second": longer})
    assert "reaches the highest test accuracy" in page.text
    assert "The same nodes were measured, but not with the same probe: epochs differ." in page.text
    assert "All runs are of the same graph." in page.text


def test_runs_without_labels_are_ranked_by_held_out_edges_of_the_same_edges_only(tmp_path: Path) -> None:
    first = replace(linked(0.8), graph=graph_run(tmp_path / "a", PATH).graph)
    for folder, edges, is_ranked in (("b", PATH, True), ("c", CYCLE, False)):
        second = replace(linked(0.9), graph=graph_run(tmp_path / folder, edges).graph)
        page = compare(tmp_path / "c.html", {"first": first, "second": second})
        assert ("second reaches the highest AUC" in page.text) == is_ranked
