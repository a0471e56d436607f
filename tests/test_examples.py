"""The scripts of examples/: short, and they do what their first line says."""

import contextlib
import io
import re
import runpy
import sys
from pathlib import Path
from unittest import mock

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def run(name, folder, *words):
    """What an example prints, in this process, which has imported torch already, and in a folder of its own."""
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed), mock.patch.object(sys, "argv", [name, *words]):
        runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    return printed.getvalue()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_less_than_40_lines(path):
    assert len(path.read_text().splitlines()) < 40


def test_there_are_four_of_them():
    assert len(EXAMPLES) == 4


def test_a_networkx_graph_is_embedded(tmp_path):
    first, *nearest = run("embed_networkx.py", tmp_path).splitlines()
    assert first.startswith("77 characters, vectors (77, ")
    assert len(nearest) == 5
    assert any(name in line for line in nearest for name in ("Marguerite", "Perpetue", "Tholomyes", "Simplice"))


def test_a_csv_file_leads_to_neighbors(tmp_path):
    told = run("csv_to_neighbors.py", tmp_path).splitlines()
    assert len(told) == 5
    assert any(name in line for line in told for name in ("town 6", "town 8", "town 5", "town 9"))
    again = run("csv_to_neighbors.py", tmp_path, "roads.csv", "town 7").splitlines()
    assert again == told


def test_ids_of_a_csv_file_may_be_numbers(tmp_path):
    road = "\n".join(f"{town},{town + step}" for town in range(60) for step in (1, 2))
    (tmp_path / "roads.csv").write_text(f"from,to\n{road}\n")
    printed = run("csv_to_neighbors.py", tmp_path, "roads.csv", "7").splitlines()
    assert {int(line.split()[-1]) for line in printed} & {5, 6, 8, 9}


def test_hidden_edges_are_predicted_without_labels(tmp_path):
    printed = run("link_prediction.py", tmp_path)
    assert float(re.search(r"pairs: ([\d.]+)", printed)[1]) > 0.6


def test_embeddings_say_more_of_the_labels_than_raw_features(tmp_path):
    raw, ours = (float(number) for number in re.findall(r"accuracy ([\d.]+)", run("probe_pyg.py", tmp_path)))
    assert ours > raw + 0.1
