"""`gscl-scale tune` refuses what cannot be searched before it reads the graph, with what to type."""

import shlex

import pytest

from tests.commands import cli


@pytest.fixture
def edges(tmp_path):
    rows = [f"{v},{(v + hop) % 20}" for v in range(20) for hop in (1, 7)]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target", *rows]))
    return tmp_path


def refused(folder, *words):
    """The sentence that refuses a search, after which there is no run folder that was not there before."""
    before = sorted(folder.glob("runs/*"))
    result = cli("tune", *words, cwd=folder)
    assert result.returncode == 2, result.stderr
    assert sorted(folder.glob("runs/*")) == before
    return result.stderr.splitlines()[-1]


def test_a_wrong_space_leaves_no_run_and_what_was_recognized_is_printed_again(edges):
    for space in ("nowhere.yaml", "edges.csv"):
        assert f"space file {space}" in refused(edges, "edges.csv", "--space", space)
    assert "is a folder" in refused(edges, "edges.csv", "--space", ".")
    again = cli("tune", "edges.csv", "--space", "nowhere.yaml", cwd=edges)
    assert "edges from 'source' to 'target'" in again.stderr
    compared = cli("compare", "edges.csv", "--space", "nowhere.yaml", "--trials", "2", cwd=edges)
    assert (compared.returncode, (edges / "runs").exists()) == (2, False)


def test_tables_without_labels_are_refused_before_they_are_read_with_the_whole_command(edges):
    sentence = refused(edges, "edges.csv", "--trials", "2")
    assert sentence.endswith("hold edges out: gscl-scale tune edges.csv --trials 2 --set evaluate.held_out_edges=0.1")
    cli("ingest", "edges.csv", "--run", "runs/own", cwd=edges)
    command = shlex.split(refused(edges, "--run", "runs/own").rpartition("hold edges out: gscl-scale tune ")[2])
    assert command[:2] == ["--run", "runs/own-2"]
    started = cli("tune", *command, "--space", "edges.csv", cwd=edges)  # the next thing that is wrong
    assert "space file edges.csv" in started.stderr


def test_no_minutes_are_refused(edges):
    assert "--minutes': expected a number, at least 0.01, got '0'" in refused(edges, "edges.csv", "--minutes", "0")
