"""The section of average ranks: which tables have it, and what is one method in it."""

import math

import pytest
from PIL import Image

from gscl_scale.evaluate.average_ranks import AverageRanks
from gscl_scale.io.json import read_json, write_json
from gscl_scale.report.plots import plot_average_ranks
from gscl_scale.runtime.console import Console
from gscl_scale.studies.reproduce.cells import cells_of
from gscl_scale.studies.reproduce.page import page
from gscl_scale.studies.reproduce.ranks import ranks_of_table, ranks_section
from gscl_scale.studies.reproduce.reproduce import reproduce
from gscl_scale.studies.reproduce.tables import TABLES, Line, Table

GRAPHS = ("one", "two", "three", "four")
LINES = (Line("raw", of="raw"), Line("pairwise"), Line("listwise", ("train.seed=1",)), Line("dgi", method="dgi"))
METHODS = Table("Methods", GRAPHS, LINES)

PROTOCOL = {
    "protocol": {
        "kind": "random", "num_splits": 1, "counts": {"train": 1, "val": 1, "test": 1}, "least_val": 1,
        "rows_per_step": 1, "scaling": "l2", "initialisations": 2, "epochs": 300, "selection": "best",
        "learning_rate": 0.01, "weight_decays": [0.0],
    }
}  # fmt: skip


def record(trained, raw=0.3):
    measured = {"trained": trained, "raw": raw}
    probe = {name: {"test_mean": mean, "val_mean": 0.5} for name, mean in measured.items()}
    return {
        "figures": {"probe": {**probe, **PROTOCOL}}, "seeds": [0], "split": "random", "seconds": 1.0,
        "finished": "2026-01-02T00:00:00", "version": "1", "commit": "abc", "machine": "2 cores of X",
    }  # fmt: skip


def records_of(graphs=GRAPHS, dgi=0.5):
    ours = {graph: record(0.8) for graph in graphs}
    others = {("dgi", graph): record(dgi) for graph in graphs}
    return {**{(name, graph): ours[graph] for name in ("raw", "pairwise", "listwise") for graph in graphs}, **others}


def test_lines_that_share_their_cells_are_one_method_and_raw_features_of_the_same_cells_another():
    found = ranks_of_table(METHODS, records_of())
    assert found.ranks == {"raw": 3.0, "pairwise = listwise": 1.0, "dgi": 2.0}
    assert found.chi_square == pytest.approx(8.0)  # N(k - 1), where the order is always the same


def test_a_page_has_the_ranks_and_says_what_is_left_out_and_the_json_file_has_them():
    records = records_of()
    del records["dgi", "two"]
    text = page("tiny", METHODS, records, {}, "made so")
    assert "Average rank by test accuracy over one, three, four; 1 is the best" in text
    assert "| pairwise = listwise | 1.00 |" in text
    assert "- Friedman test: chi-square 6.00 with 2 degrees of freedom, p = 0.0498." in text
    assert "their average ranks differ by 1.91 or more" in text
    assert "Groups without a significant difference: pairwise = listwise, dgi; dgi, raw." in text
    assert "- Left out: two (not measured: dgi)." in text
    assert "](tiny_ranks.png)" in text


def test_a_page_names_lines_with_the_same_reason_together():
    found = AverageRanks(
        ["one"], {"a": 1.0, "b": 2.0}, 1.0, 0.5, 1.0, dict.fromkeys(("c", "d"), "measured on two only")
    )
    assert "- Left out: c, d (measured on two only)." in "\n".join(ranks_section("tiny", METHODS, found))


def test_a_page_says_that_labels_are_shuffled():
    records = records_of()
    assert "shuffled" not in page("tiny", METHODS, records, {}, "made so")
    records["dgi", "one"]["figures"]["graph"] = {"name": "one (labels shuffled, seed 1)", "shuffled_labels": 1}
    assert "- The labels are shuffled (`evaluate.shuffle_labels`)" in page("tiny", METHODS, records, {}, "made so")


@pytest.mark.parametrize(
    ("changes", "graphs"),
    [
        ({}, GRAPHS[:2]),
        ({"shape": "along lines"}, GRAPHS),
        ({"against": "dgi"}, GRAPHS),
        ({"measures": ("nmi", "accuracy")}, GRAPHS),
    ],
)
def test_tables_of_few_graphs_or_of_settings_have_no_ranks(changes, graphs):
    table = Table("Methods", GRAPHS, LINES, **changes)
    assert ranks_of_table(table, records_of(graphs)) is None


def test_missing_figures_are_missing_cells():
    records = records_of()
    records["dgi", "one"]["figures"].clear()
    assert ranks_of_table(METHODS, records).left_out == {"one": "not measured: dgi"}


def test_a_table_is_written_with_its_ranks_and_their_picture(tmp_path, monkeypatch):
    configs, out = tmp_path / "configs", tmp_path / "results"
    configs.mkdir()
    for graph in GRAPHS:
        (configs / f"{graph}.yaml").write_text(f"graph: {{source: synthetic, num_nodes: {90 + len(graph)}}}")
    monkeypatch.setitem(TABLES, "tiny", METHODS)
    for line, cells in cells_of(METHODS, configs, list(GRAPHS), [], 1).items():
        for cell in cells:
            write_json(cell.file(out), record(0.9 if line.name == "pairwise" else 0.5))
    reproduce("tiny", configs, out, [], [], 1, Console(quiet=True), page_only=True)
    ranks = read_json(out / "tiny.json")["ranks"]
    assert ranks["graphs"] == list(GRAPHS)
    assert ranks["average_ranks"] == {"raw": 4.0, "pairwise": 1.0, "listwise": 2.5, "dgi": 2.5}
    assert ranks["nemenyi"]["groups"] == [["pairwise", "listwise", "dgi"], ["listwise", "dgi", "raw"]]
    with Image.open(out / "tiny_ranks.png") as picture:
        assert picture.width > 500
    assert "](tiny_ranks.png)" in (out / "tiny.md").read_text()


def test_a_diagram_is_drawn_for_any_number_of_methods(tmp_path):
    for number in (2, 3, 12):
        ranks = {f"method {place}": float(place + 1) for place in range(number)}
        plot_average_ranks(AverageRanks(["one"], ranks, 9.0, 0.01, math.sqrt(number), {}), tmp_path / "ranks.png")
        with Image.open(tmp_path / "ranks.png") as picture:
            assert picture.height > 200
