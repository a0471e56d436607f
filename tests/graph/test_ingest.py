"""The verb `ingest`."""

import os
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from gscl_scale import machine
from gscl_scale.cli import main as cli
from gscl_scale.config.config import Config
from gscl_scale.errors import FolderError
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


def test_the_estimate_is_told_before_the_graph(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        "sys.argv",
        ["gscl-scale", "ingest", "--source", "synthetic", "--set", "graph.preset=tiny", "--run", str(tmp_path / "r")],
    )
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("300 nodes and 1,200 edges take about 0.5 GiB of memory")
    assert lines[1].startswith("graph synthetic-tiny: 300 nodes")


def test_a_graph_whose_making_was_cut_off_is_never_taken_for_one_of_inputs_that_changed_since(tmp_path, monkeypatch):
    edges = tmp_path / "edges.csv"
    edges.write_text("source,target\n" + "\n".join(f"{v},{v + 1}" for v in range(20)))
    config = Config.parse({"graph": {"source": "tables", "edges": str(edges)}})
    run = open_run(config, tmp_path / "run")
    with monkeypatch.context() as killed:
        killed.setattr(ingest_module, "write_json", _killed_after(1, write_json))
        with pytest.raises(KeyboardInterrupt):
            ingest_stage(config, run, Console(quiet=True))
    assert (run.graph / "manifest.json").exists()
    edges.write_text(edges.read_text() + "\n3,9")
    with pytest.raises(FolderError, match="has changed since"):
        ingest_stage(config, run, Console(quiet=True))


@pytest.mark.parametrize("change", ["come", "gone", "other"])
def test_a_folder_of_tables_that_has_changed_since_is_refused(tmp_path, change):
    edges = tmp_path / "edges"
    edges.mkdir()
    for number in range(2):
        (edges / f"part-{number}.csv").write_text(f"source,target\n{number},{number + 1}\n")
    config = Config.parse({"graph": {"source": "tables", "edges": str(edges)}})
    run = open_run(config, tmp_path / "run")
    ingest_stage(config, run, Console(quiet=True))
    ingest_stage(config, run, Console(quiet=True))
    file = edges / f"part-{2 if change == 'come' else 1}.csv"
    if change == "gone":
        file.unlink()
    else:
        file.write_text("source,target\n1,9\n")
    with pytest.raises(FolderError, match=f"{file.name} has changed since"):
        ingest_stage(config, run, Console(quiet=True))


def path_of_three(folder):
    """A table of two edges, a configuration for it, and a run."""
    edges = folder / "edges.csv"
    edges.write_text("source,target\n0,1\n1,2\n")
    config = Config.parse({"graph": {"source": "tables", "edges": str(edges)}})
    return edges, config, open_run(config, folder / "run")


def test_hidden_files_beside_tables_are_no_inputs(tmp_path):
    folder = tmp_path / "edges"
    folder.mkdir()
    (folder / "part-0.csv").write_text("source,target\n0,1\n1,2\n")
    config = Config.parse({"graph": {"source": "tables", "edges": str(folder)}})
    run = open_run(config, tmp_path / "run")
    made = ingest_stage(config, run, Console(quiet=True)).fingerprint
    (folder / "_SUCCESS").touch()
    (folder / ".part-0.csv.crc").write_text("x")
    assert ingest_stage(config, run, Console(quiet=True)).fingerprint == made
    record = dict(read_record(run.folder))
    noted = {**record["inputs"], str(folder / "_SUCCESS"): [0, 1]}  # as by an earlier version
    write_json(run.folder / "run.json", {**record, "inputs": noted})
    (folder / "_SUCCESS").unlink()
    assert ingest_stage(config, run, Console(quiet=True)).fingerprint == made
    (folder / "part-1.csv").write_text("source,target\n0,2\n")
    with pytest.raises(FolderError, match=r"part-1\.csv"):
        ingest_stage(config, run, Console(quiet=True))


def test_inputs_that_were_copied_anew_are_the_same_and_other_bytes_of_that_size_are_not(tmp_path):
    edges, config, run = path_of_three(tmp_path)
    made = ingest_stage(config, run, Console(quiet=True)).fingerprint
    os.utime(edges, (1, 1))
    assert ingest_stage(config, run, Console(quiet=True)).fingerprint == made
    edges.write_text("source,target\n0,1\n0,2\n")
    with pytest.raises(FolderError, match=r"edges\.csv has changed since"):
        ingest_stage(config, run, Console(quiet=True))


def test_a_file_that_changes_while_it_is_read_is_not_taken_for_what_was_read(tmp_path, monkeypatch):
    (edges, config, run), write = path_of_three(tmp_path), ingest_module.write_graph

    def and_then_it_changes(*arguments):
        graph = write(*arguments)
        edges.write_text("source,target\n0,1\n0,2\n")
        os.utime(edges, (1, 1))
        return graph

    monkeypatch.setattr(ingest_module, "write_graph", and_then_it_changes)
    ingest_stage(config, run, Console(quiet=True))
    with pytest.raises(FolderError, match=r"edges\.csv has changed since"):
        ingest_stage(config, run, Console(quiet=True))


def test_the_record_of_an_earlier_version_has_no_checksums_and_is_compared_by_time(tmp_path):
    edges, config, run = path_of_three(tmp_path)
    ingest_stage(config, run, Console(quiet=True))
    record = read_record(run.folder)
    inputs = {name: seen[:2] for name, seen in record["inputs"].items()}
    write_json(run.folder / "run.json", {**record, "inputs": inputs})
    ingest_stage(config, run, Console(quiet=True))
    os.utime(edges, (1, 1))
    with pytest.raises(FolderError, match=r"edges\.csv has changed since"):
        ingest_stage(config, run, Console(quiet=True))


def _killed_after(calls, function):
    """Ends the process, so to speak, at the next call after so many."""
    left = [calls]

    def instead(*arguments):
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return function(*arguments)

    return instead
