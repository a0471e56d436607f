"""`--overwrite` and `--dry-run`: what is removed and what is kept, and what would run."""

import re
import shutil

import pytest

from gscl_scale.run.log import read_events
from tests.commands import cli
from tests.test_cli import write_tables

pytestmark = pytest.mark.usefixtures("blank_curves")

MADE = ("graph", "samples", "checkpoints", "embeddings", "metrics.json", "report.html")


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """A finished run, and a file of the user in its folder."""
    folder = tmp_path_factory.mktemp("once")
    write_tables(folder)
    result = cli("run", "--config", "quick.yaml", cwd=folder)
    assert result.returncode == 0, result.stderr
    (folder / "runs/quick/notes.txt").write_text("mine")
    return folder


@pytest.fixture
def finished(once, tmp_path):
    shutil.copytree(once, tmp_path, dirs_exist_ok=True)
    return tmp_path


def times(folder):
    return {
        path: path.stat().st_mtime_ns for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"
    }


def test_epochs_other_than_those_that_auto_chose_are_named_and_planned(tmp_path):
    write_tables(tmp_path)
    words = ("--config", "quick.yaml", "--set", "train.batch_size=8192")
    assert cli("run", *words, "--set", "train.epochs=auto", cwd=tmp_path).returncode == 0
    for same in ("auto", "100"):  # a step per epoch
        assert cli("run", *words, "--set", f"train.epochs={same}", "--dry-run", cwd=tmp_path).returncode == 0
    for more in ((), ("--dry-run",)):
        refused = cli("run", *words, "--set", "train.epochs=2", *more, cwd=tmp_path)
        assert refused.returncode == 2
        assert "made with train.epochs=100, but the config now says 2" in refused.stderr
    planned = cli("run", *words, "--set", "train.epochs=2", "--overwrite", "--dry-run", cwd=tmp_path)
    assert "would remove runs/quick/checkpoints" in planned.stdout + planned.stderr


@pytest.mark.parametrize(
    ("setting", "removed"),
    [
        ("train.epochs=2", MADE[2:]),
        ("rings.width=12", MADE[1:]),
        ("graph.structural_features=16", MADE),
        ("evaluate.seed=3", ()),
    ],
)
def test_exactly_what_was_made_with_other_settings_is_removed_and_made_again(finished, setting, removed):
    run, words = finished / "runs/quick", ("run", "--config", "quick.yaml", "--set", setting)
    before = times(run)
    if removed:
        refused = cli(*words, cwd=finished)
        assert (refused.returncode, f"--overwrite, which removes runs/quick/{removed[0]} and" in refused.stderr) == (
            2,
            True,
        )
        assert times(run) == before
    planned = cli(*words, "--overwrite", "--dry-run", cwd=finished)
    assert planned.returncode == 0, planned.stderr
    result = cli(*words, "--overwrite", cwd=finished)
    assert result.returncode == 0, result.stderr
    for told, begun in ((planned.stdout, "would remove "), (result.stderr, "removed ")):
        gone = {name.split("/")[2] for name in re.findall(rf"^{begun}([^\s,]+)", told, re.MULTILINE)}
        assert gone & set(MADE) == set(removed)
        assert "notes.txt" not in gone
    after = times(run)
    for path, time in before.items():
        name = path.relative_to(run).parts[0]
        if name in MADE[:4]:
            assert (path not in after or after[path] != time) == (name in removed), path
    assert (run / "notes.txt").read_text() == "mine"


def test_a_changed_table_is_read_again(finished):
    with (finished / "edges.csv").open("a") as file:
        file.write("user-0,user-1\n")
    words = ("ingest", "--config", "quick.yaml")
    refused = cli(*words, cwd=finished)
    assert (refused.returncode, "with --overwrite, which reads it again" in refused.stderr) == (2, True)
    assert cli(*words, "--overwrite", cwd=finished).returncode == 0
    assert not (finished / "runs/quick/samples").exists()
    assert cli(*words, cwd=finished).returncode == 0


def test_a_new_graph_that_cannot_be_read_leaves_everything_as_it_was(finished):
    before = times(finished / "runs/quick")
    edges = finished / "edges.csv"
    edges.write_text(f"{edges.read_text()}user-0,\n")
    refused = cli("run", "--config", "quick.yaml", "--overwrite", cwd=finished)
    assert (refused.returncode, "is empty; expected an id" in refused.stderr) == (2, True)
    after = times(finished / "runs/quick")
    log = finished / "runs/quick/log.jsonl"
    assert {**after, log: before[log]} == before
    assert [path.name for path in (finished / "runs/quick").iterdir() if path.name.startswith(".overwrite")] == []
    edges.write_text(edges.read_text().replace("user-0,\n", "user-0,user-1\n"))
    done = cli("ingest", "--config", "quick.yaml", "--overwrite", cwd=finished)
    assert done.returncode == 0, done.stderr
    assert read_events(log)[-1]["event"] == "done"
    assert read_events(log)[0]["event"] == "started"


def test_repeats_are_removed_with_the_graph_that_they_were_made_from(finished):
    words = ("precompute", "--config", "quick.yaml", "--set", "train.repeats=2", "--run", "runs/two")
    assert cli(*words, cwd=finished).returncode == 0
    other = (*words, "--set", "rings.width=12", "--overwrite")
    told = cli(*other, cwd=finished)
    assert told.returncode == 0, told.stderr
    assert re.findall(r"^removed (\S+),", told.stderr, re.MULTILINE) == [
        "runs/two/seed-0/samples", "runs/two/seed-1/samples",
    ]  # fmt: skip
    told = cli(*other, "--set", "graph.structural_features=16", cwd=finished)
    assert re.findall(r"^removed (\S+),", told.stderr, re.MULTILINE)[0] == "runs/two/graph"
    assert "runs/two/seed-1" in told.stderr


def test_a_folder_that_is_no_run_is_not_overwritten(finished):
    (finished / "mine").mkdir()
    (finished / "mine/graph").write_text("precious")
    refused = cli("run", "--config", "quick.yaml", "--run", "mine", "--overwrite", cwd=finished)
    assert (refused.returncode, (finished / "mine/graph").read_text()) == (2, "precious")


def test_a_dry_run_writes_nothing_and_tells_what_would_run(finished):
    before = times(finished)
    done = cli("run", "--config", "quick.yaml", "--dry-run", cwd=finished)
    assert done.returncode == 0, done.stderr
    assert "Everything is finished; nothing would run." in done.stdout
    fresh = cli("run", "edges.csv", "--nodes", "nodes.parquet", "--dry-run", cwd=finished)
    assert fresh.returncode == 0, fresh.stderr
    assert "run runs/edges" in fresh.stdout
    assert "90 nodes and" in fresh.stdout
    for stage in ("graph", "precompute", "train", "embed", "evaluate", "report"):
        assert re.search(rf"{stage} +│ run +│ about \d", fresh.stdout), fresh.stdout
    shutil.rmtree(finished / "runs/quick/embeddings")
    left = cli("run", "--run", "runs/quick", "--dry-run", cwd=finished)
    assert re.search(r"train +│ finished", left.stdout)
    assert re.search(r"embed +│ run", left.stdout)
    assert {path for path in before if "embeddings" not in str(path)} <= set(times(finished))
    assert not (finished / "runs/edges").exists()
    refused = cli("run", "--config", "quick.yaml", "--set", "rings.width=12", "--dry-run", cwd=finished)
    assert (refused.returncode, "rings.width=16, but the config now says 12" in refused.stderr) == (2, True)
