"""The verb `ingest`."""

import os
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from gscl_scale import machine
from gscl_scale.cli import main as cli
from gscl_scale.config.config import Config
from gscl_scale.errors import FolderError
from gscl_scale.graph import estimate
from gscl_scale.io.json import write_json
from gscl_scale.run.record import open_run, read_record
from gscl_scale.runtime.console import Console
from gscl_scale.stages import ingest as ingest_module
from gscl_scale.stages.ingest import ingest as ingest_stage


@pytest.fixture
def ingest(tmp_path, monkeypatch):
    """Run the verb up to the pipeline; returns what the pipeline was given, and what was said."""
    monkeypatch.chdir(tmp_path)
    given = []

    def record(config, run, console):
        given.append((config.graph, str(run.folder)))
        return SimpleNamespace(name="none")

    def invoke(*arguments):
        monkeypatch.setattr(ingest_module, "ingest", record)
        result = CliRunner().invoke(cli.app, ["ingest", *arguments], catch_exceptions=False)
        assert result.exit_code == 0
        return *given[-1], result.output

    return invoke


def test_source_synthetic_alone_is_the_large_graph_and_says_so(ingest):
    graph, folder, said = ingest("--source", "synthetic")
    assert (graph.source, graph.preset, folder) == ("synthetic", "large", "runs/synthetic")
    assert "graph.preset is large; for a small graph add --set graph.preset=small" in said


@pytest.mark.parametrize(
    ("arguments", "preset"),
    [
        (["--source", "synthetic", "--set", "graph.preset=tiny"], "tiny"),
        (["--set", "graph.source=synthetic"], "small"),
        (["--source", "synthetic", "--config", "mine.yaml"], "arxiv"),
    ],
)
def test_a_preset_that_is_given_stays(ingest, tmp_path, arguments, preset):
    (tmp_path / "mine.yaml").write_text("graph: {source: synthetic, preset: arxiv}")
    graph, _, said = ingest(*arguments)
    assert graph.preset == preset
    assert "graph.preset is" not in said


def test_a_source_is_a_short_form_of_its_key(ingest):
    graph, folder, said = ingest("--source", "digits", "--set", "graph.neighbours=3")
    assert (graph.source, graph.neighbours, folder) == ("digits", 3, "runs/digits")
    assert "preset" not in said


@pytest.mark.parametrize("has", ["memory", "disk"])
def test_what_this_machine_cannot_hold_is_refused_and_nothing_is_left(tmp_path, monkeypatch, capsys, has):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "available_memory", lambda: 1 << (20 if has == "memory" else 40))
    monkeypatch.setattr(machine, "free_disk", lambda folder: 1 << (20 if has == "disk" else 40))
    monkeypatch.setattr("sys.argv", ["gscl-scale", "ingest", "--source", "synthetic"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    sentence = capsys.readouterr().err.splitlines()[-1]
    assert sentence.startswith("gscl-scale: 10,000,000 nodes and 110,000,000 edges take about ")
    assert ("graph.num_nodes" if has == "memory" else "--run on a larger disk") in sentence
    assert not list((tmp_path / "runs").glob("*"))


@pytest.mark.parametrize("large", [True, False])
def test_the_estimate_is_printed_before_a_graph_that_is_not_small(tmp_path, monkeypatch, large):
    monkeypatch.setattr(estimate, "_LARGE", 0 if large else estimate._LARGE)
    arguments = ["ingest", "--source", "synthetic", "--set", "graph.preset=tiny", "--run", str(tmp_path / "r")]
    lines = CliRunner().invoke(cli.app, arguments, catch_exceptions=False).stderr.splitlines()
    if large:
        assert lines.pop(0).startswith("300 nodes and 1,200 edges take about 0.5 GiB of memory")
    assert lines[0].startswith("graph synthetic-tiny: 300 nodes")
    assert lines[0].endswith(" classes")


def test_a_graph_without_labels_is_said_to_have_none(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n1,2\n")
    told = CliRunner().invoke(cli.app, ["ingest", str(tmp_path / "edges.csv"), "--run", str(tmp_path / "r")]).stderr
    assert "graph edges: 3 nodes, 2 undirected edges, 128 features, no labels\n" in told


@pytest.fixture
def tables(tmp_path):
    """A folder with a table of two edges, and the stage that ingests it into a run; returns the fingerprint."""
    edges = tmp_path / "edges"
    edges.mkdir()
    (edges / "part-0.csv").write_text("source,target\n0,1\n1,2\n")
    config = Config.parse({"graph": {"source": "tables", "edges": str(edges)}})
    run = open_run(config, tmp_path / "run")
    return SimpleNamespace(
        edges=edges,
        file=edges / "part-0.csv",
        run=run,
        ingest=lambda: ingest_stage(config, run, Console(quiet=True)).fingerprint,
    )


def assert_refused(tables, name=r"part-0\.csv"):
    with pytest.raises(FolderError, match=f"{name} has changed since"):
        tables.ingest()


def test_a_graph_whose_ingest_was_cut_off_is_refused_once_its_inputs_have_changed(tables, monkeypatch):
    calls = []

    def killed(*arguments):
        calls.append(arguments)
        if len(calls) > 1:
            raise KeyboardInterrupt
        write_json(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(ingest_module, "write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            tables.ingest()
    assert (tables.run.graph / "manifest.json").exists()
    tables.file.write_text(tables.file.read_text() + "0,2\n")
    assert_refused(tables)


@pytest.mark.parametrize("change", ["come", "gone", "other"])
def test_a_folder_of_tables_that_has_changed_since_is_refused(tables, change):
    second = tables.edges / "part-1.csv"
    if change != "come":
        second.write_text("source,target\n1,2\n")
    assert tables.ingest() == tables.ingest()
    if change == "gone":
        second.unlink()
    else:
        second.write_text("source,target\n1,9\n")
    assert_refused(tables, second.name)


def test_hidden_files_in_the_folder_of_tables_are_no_inputs(tables):
    fingerprint = tables.ingest()
    (tables.edges / "_SUCCESS").touch()
    (tables.edges / ".part-0.csv.crc").write_text("x")
    assert tables.ingest() == fingerprint
    record = dict(read_record(tables.run.folder))
    inputs = {**record["inputs"], str(tables.edges / "_SUCCESS"): [0, 1]}  # as by an earlier version
    write_json(tables.run.folder / "run.json", {**record, "inputs": inputs})
    (tables.edges / "_SUCCESS").unlink()
    assert tables.ingest() == fingerprint


def test_inputs_that_were_copied_anew_are_the_same_and_other_bytes_of_that_size_are_not(tables):
    fingerprint = tables.ingest()
    os.utime(tables.file, (1, 1))
    assert tables.ingest() == fingerprint
    tables.file.write_text("source,target\n0,1\n0,2\n")
    assert_refused(tables)


def test_a_file_that_changes_while_it_is_read_is_not_taken_for_what_was_read(tables, monkeypatch):
    write = ingest_module.write_graph

    def and_then_it_changes(*arguments):
        graph = write(*arguments)
        tables.file.write_text("source,target\n0,1\n0,2\n")
        os.utime(tables.file, (1, 1))
        return graph

    monkeypatch.setattr(ingest_module, "write_graph", and_then_it_changes)
    tables.ingest()
    assert_refused(tables)


def test_the_record_of_an_earlier_version_has_no_checksums_and_is_compared_by_time(tables):
    tables.ingest()
    record = read_record(tables.run.folder)
    inputs = {name: state[:2] for name, state in record["inputs"].items()}
    write_json(tables.run.folder / "run.json", {**record, "inputs": inputs})
    tables.ingest()
    os.utime(tables.file, (1, 1))
    assert_refused(tables)
