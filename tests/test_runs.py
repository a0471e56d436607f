"""One process at a time works in a run folder."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gscl_scale.config.config import Config
from gscl_scale.errors import FolderError, GsclError, LeaseError
from gscl_scale.io.atomic import publish_folder, remove_half_written
from gscl_scale.io.json import write_json
from gscl_scale.run.lock import lock_run
from gscl_scale.run.record import open_run
from gscl_scale.runtime.console import Console
from gscl_scale.stages.ingest import ingest
from tests.commands import cli

HOST = socket.gethostname()
HOLDER = """
import sys, time
from pathlib import Path
from gscl_scale.run.lock import lock_run
with lock_run(Path(sys.argv[1])):
    print("alone", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that works in a folder."""
    command = [sys.executable, "-c", HOLDER, tmp_path / "run"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "alone\n"
        yield process
        process.kill()


def test_a_second_command_is_refused_with_exit_code_4_and_told_who_works_there(holder, tmp_path):
    result = cli("ingest", "--source", "digits", "--run", "run", cwd=tmp_path)
    assert result.returncode == 4
    assert f"run is being worked on by process {holder.pid} of " in result.stderr
    assert len(result.stderr.splitlines()) == 1
    with pytest.raises(LeaseError, match=f"process {holder.pid}"), lock_run(tmp_path / "run"):
        pass


def test_the_folder_of_a_killed_process_is_free(holder, tmp_path):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    result = cli("ingest", "--source", "digits", "--run", "run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr


ENDING = """
import codecs, sys, types
from pathlib import Path
keeper = sys.modules["keeper"] = types.ModuleType("keeper")
from gscl_scale.run import lock
keeper.block = lock.lock_run(Path(sys.argv[1]))
keeper.block.__enter__()
codecs.register(lambda name, modules=(keeper, lock): None)  # keeps both until the names of modules are None
"""


def test_python_may_end_inside_the_block(tmp_path):
    command = [sys.executable, "-c", ENDING, tmp_path / "run"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not ended.stderr
    with lock_run(tmp_path / "run"):
        pass


WRITER = """
import sys, time
from pathlib import Path
from gscl_scale.io.atomic import publish_file
with publish_file(Path(sys.argv[1])) as temporary:
    temporary.write_text("half")
    print("half", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("name", ["run.json", "seed-1/metrics.json", "checkpoints/step-000005.pt"])
def test_what_a_killed_process_has_half_written_goes_and_what_a_running_one_writes_stays(tmp_path, name):
    path = tmp_path / "run" / name
    open_run(Config(), tmp_path / "run")
    with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "half\n"
        with lock_run(tmp_path / "run"):
            pass
        assert [one.read_text() for one in path.parent.glob(".*.tmp")] == ["half"]
        process.kill()
        process.wait()
        with lock_run(tmp_path / "run"):
            assert not list(path.parent.glob(".*.tmp"))


def test_a_folder_that_vanishes_while_the_run_is_looked_through_is_in_nobodys_way(tmp_path):
    open_run(Config(), tmp_path / "run")
    over = threading.Event()

    def come_and_go():
        while not over.is_set():
            with publish_folder(tmp_path / "run/embeddings/index") as temporary:
                (temporary / "inner").mkdir()

    with ThreadPoolExecutor(1) as beside:
        coming = beside.submit(come_and_go)
        for _ in range(1000):
            remove_half_written(tmp_path / "run")
        over.set()
        coming.result()


def test_what_another_machine_has_half_written_goes_when_it_is_old(tmp_path):
    open_run(Config(), tmp_path / "run")
    young, old, ours = (tmp_path / "run" / f".run.json.{name}.tmp" for name in ("a-1", "b-1", f"{HOST}-{os.getpid()}"))
    for path in (young, old, ours):
        path.write_text("half")
    os.utime(old, (time.time() - 4000, time.time() - 4000))
    with lock_run(tmp_path / "run"):
        assert list((tmp_path / "run").glob(".*.tmp")) == [young]


def test_looking_at_a_run_needs_no_leave(holder, tmp_path):
    open_run(Config(), tmp_path / "run")
    assert cli("status", "--run", "run", cwd=tmp_path).returncode == 0


def test_nothing_is_left_where_nothing_was_made(tmp_path):
    with lock_run(tmp_path / "run"):
        assert (tmp_path / "run").is_dir()
    assert not list(tmp_path.iterdir())


def test_a_run_with_work_is_not_forgotten_when_its_graph_cannot_be_read_again(tmp_path):
    config = Config.parse({"graph": {"source": "npz", "path": str(tmp_path / "away.npz")}})
    run = open_run(config, tmp_path / "run")
    run.samples.mkdir()
    with pytest.raises(GsclError, match="does not exist"):
        ingest(config, run, Console(quiet=True))
    assert open_run(config, tmp_path / "run").folder == run.folder
    run.samples.rmdir()
    with pytest.raises(GsclError, match="does not exist"):
        ingest(config, run, Console(quiet=True))
    assert not run.folder.exists()


def test_a_process_may_come_in_again(tmp_path):
    with lock_run(tmp_path / "run"):
        open_run(Config(), tmp_path / "run")
        with lock_run(tmp_path / "run"):
            pass
        assert (tmp_path / "run/run.json").exists()
    assert cli("status", "--run", "run", cwd=tmp_path).returncode == 0


def test_a_folder_of_something_else_is_left_as_it_is(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with lock_run(tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
    with pytest.raises(FolderError, match="is not empty and holds no run"):
        open_run(Config(), tmp_path)


def test_a_run_that_has_lost_its_record_is_told_from_a_folder_of_something_else(tmp_path):
    folder = tmp_path / "run"
    (folder / "graph").mkdir(parents=True)
    (folder / "graph/manifest.json").write_text("{}")
    with pytest.raises(FolderError, match=f"whose run.json is gone; delete {folder} to start again"):
        open_run(Config(), folder)
    assert (folder / "graph/manifest.json").exists()


def test_what_a_killed_process_has_left_before_it_had_begun_is_no_other_work(tmp_path):
    Path(tmp_path / ".run.json.somewhere-77.tmp").write_text("{")
    assert open_run(Config(), tmp_path).folder == tmp_path


@pytest.mark.parametrize(("validate_every", "refused"), [(0, False), (2, True)])
def test_splits_that_have_chosen_an_epoch_stay_those_of_the_run(tmp_path, validate_every, refused):
    train = {"train": {"validate_every": validate_every}}
    run = open_run(Config.parse(train), tmp_path / "run")
    run.checkpoints.mkdir()
    open_run(Config.parse({**train, "evaluate": {"initialisations": 3}}), run.folder)
    other = Config.parse({**train, "evaluate": {"seed": 5}})
    if refused:
        with pytest.raises(FolderError, match=r"chosen with evaluate\.seed=0, but the config now says 5"):
            open_run(other, run.folder)
    else:
        open_run(other, run.folder)


@pytest.mark.parametrize("finished", [False, True])
def test_while_it_lasts_a_training_compares_its_epochs_by_one_probe(tmp_path, finished):
    train = {"train": {"validate_every": 2}}
    run = open_run(Config.parse(train), tmp_path / "run")
    run.checkpoints.mkdir()
    write_json(run.checkpoints / "manifest.json", {"checkpoints": [{"epoch": 2, "finished": finished}]})
    other = Config.parse({**train, "evaluate": {"probe_scaling": "standard"}})
    if finished:
        open_run(other, run.folder)
    else:
        says = r"evaluate\.probe_scaling='l2', but the config now says 'standard'; finish the training"
        with pytest.raises(FolderError, match=says):
            open_run(other, run.folder)
