"""Run folders on an object store, worked on through a copy."""

import contextlib
import json
import shutil
import sys
import threading
import time
from unittest import mock

import pytest

from gscl_scale.errors import FolderError, LeaseError, OvertakenError, RunError
from gscl_scale.io.checksum import sha256_in
from gscl_scale.registry.locate import LocatedRun, place_for
from gscl_scale.run.folder import Run
from gscl_scale.storage.mirror import Mirror, small_files, working_copy
from gscl_scale.storage.urls import cache_of, store_at
from tests.commands import cli
from tests.forked import begin_command
from tests.test_cli import write_tables

pytestmark = pytest.mark.parametrize("place", ["s3"], indirect=True)


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "copy"
    (folder / "graph").mkdir(parents=True)
    (folder / "graph/indices.arrow").write_bytes(b"i" * 3_000_000)
    (folder / "graph/manifest.json").write_text("{}")
    (folder / "log.jsonl").write_text("one\n")
    (folder / "graph/.half.tmp").write_text("half")
    (folder / "scratch").mkdir()
    (folder / "scratch/large").write_text("not kept")
    return folder


@pytest.fixture
def pulled(store, tmp_path):
    """Pulls the run to a folder of another machine."""

    def pull(name="there"):
        Mirror(store, tmp_path / name).pull()
        return tmp_path / name

    return pull


def content(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not any(part.startswith(".") or part == "scratch" for part in path.relative_to(folder).parts)
    }


def log_of(folder):
    return (folder / "log.jsonl").read_text()


def write_log(folder, text):
    folder.mkdir(exist_ok=True)
    (folder / "log.jsonl").write_text(text)


def test_a_pushed_folder_is_pulled_elsewhere_and_a_file_that_changes_is_new_there(store, files, pulled):
    mirror = Mirror(store, files)
    mirror.push()
    assert content(pulled()) == content(files)
    assert store.read("graph/manifest.json") is None  # nobody reads it with other tools
    for text in ("one\ntwo\n", "one\ntwo\nthree\n"):
        write_log(files, text)
        (files / "graph/manifest.json").unlink(missing_ok=True)
        mirror.push()
        assert content(pulled()) == content(files)
        assert store.read("log.jsonl") == text.encode()  # under its plain name, for people who read the store
    assert len([name for name in store.sizes(".pushes") if name.endswith(".json")]) == 1


def test_an_unchanged_file_is_not_pushed_again(store, files, monkeypatch):
    mirror = Mirror(store, files)
    mirror.push()
    uploaded = []
    monkeypatch.setattr(store, "put", lambda file, size, name: uploaded.append(name))
    mirror.push()
    Mirror(store, files).push()
    assert not uploaded


@pytest.mark.parametrize("error", [KeyboardInterrupt, RunError("no answer")])
def test_a_push_that_was_cut_off_leaves_the_one_before_and_is_repeated(store, files, pulled, error):
    mirror = Mirror(store, files)
    mirror.push()
    before = content(files)
    write_log(files, "one\ntwo\n")
    (files / "graph/indices.arrow").write_bytes(b"j" * 3_000_000)
    with mock.patch.object(store, "create", side_effect=error), pytest.raises((KeyboardInterrupt, RunError)):
        mirror.push()
    assert content(pulled()) == before
    mirror.push()
    assert content(pulled()) == content(files)


def test_work_that_was_not_pushed_stays_where_it_was_done_unless_others_went_on(store, files, pulled):
    mirror = Mirror(store, files)
    mirror.push()
    write_log(files, "one\nnot pushed\n")
    mirror.pull()
    assert log_of(files) == "one\nnot pushed\n"
    there = pulled()
    write_log(there, "one\nby others\n")
    Mirror(store, there).push()
    mirror.pull()
    assert log_of(files) == "one\nby others\n"


@pytest.mark.parametrize("goes_on", [True, False])
def test_of_two_that_work_in_one_place_the_slower_ends(place, store, files, tmp_path, pulled, goes_on):
    there = tmp_path / "there"
    if goes_on:
        Mirror(store, files).push()
        pulled()
    late = Mirror(store_at(place), there)
    for folder in (files, there):
        write_log(folder, f"by {folder.name}")
    Mirror(store, files).push()
    with pytest.raises(OvertakenError, match="another process works in this run folder"):
        late.push()
    assert log_of(pulled("third")) == "by copy"


def test_a_push_so_slow_that_its_number_is_free_again_ends_and_takes_nothing_away(store, files, tmp_path, pulled):
    slow = tmp_path / "slow"
    shutil.copytree(files, slow)
    write_log(slow, "of another machine\n")
    fast = Mirror(store, files)
    fast.push()
    write_log(files, "one\ntwo\n")
    fast.push()  # the index of the first push is not needed any more
    before = store.sizes()
    for _ in range(2):
        with pytest.raises(OvertakenError):
            Mirror(store, slow).push()
    assert before.items() <= store.sizes().items()
    assert content(pulled()) == content(files)


def test_a_file_that_grows_while_it_is_pushed_is_complete_elsewhere(store, files, pulled, monkeypatch):
    def meanwhile(file, size):
        checksum = sha256_in(file, size)
        with (files / "log.jsonl").open("a") as log:
            log.write("more\n")
        return checksum

    with monkeypatch.context() as growing:
        growing.setattr("gscl_scale.storage.mirror.sha256_in", meanwhile)
        mirror = Mirror(store, files)
        mirror.push()
    assert log_of(files).startswith(log_of(pulled()))
    mirror.push()
    assert log_of(pulled()) == log_of(files)


def test_a_manifest_is_never_newer_than_the_files_it_names(store, files, pulled, monkeypatch):
    put = store.put

    def meanwhile(file, size, name):
        put(file, size, name)
        if not (files / "graph/second.arrow").exists():
            (files / "graph/second.arrow").write_text("second")
            (files / "graph/manifest.json").write_text('{"names": "second"}')

    with monkeypatch.context() as working:
        working.setattr(store, "put", meanwhile)
        Mirror(store, files).push()
    graph = pulled() / "graph"
    assert (graph / "second.arrow").exists() or "second" not in (graph / "manifest.json").read_text()


class TooLate(Exception):
    pass


@pytest.mark.parametrize("faster", ["copy", "there"])
def test_two_that_push_at_the_same_moment_never_mix(place, store, files, pulled, monkeypatch, faster):
    Mirror(store, files).push()
    there, others = pulled(), store_at(place)
    for folder in (files, there):
        write_log(folder, f"by {folder.name}")
        (folder / "new.arrow").write_text(f"new by {folder.name}")
    create = others.create

    def too_late(name, text):
        if name.endswith(".json"):
            raise TooLate
        return create(name, text)

    def meanwhile(name, text):
        if name.endswith(".json"):
            with monkeypatch.context() as slow, contextlib.suppress(TooLate):
                if faster == "copy":
                    slow.setattr(others, "create", too_late)
                Mirror(others, there).push()
        return type(store).create(store, name, text)

    with monkeypatch.context() as both:
        both.setattr(store, "create", meanwhile)
        with contextlib.nullcontext() if faster == "copy" else pytest.raises(OvertakenError):
            Mirror(store, files).push()
    third = pulled("third")
    assert log_of(third) == f"by {faster}"
    assert (third / "new.arrow").read_text() == f"new by {faster}"


def test_a_file_that_was_gone_for_a_while_is_complete_elsewhere(store, files, tmp_path, pulled):
    mirror = Mirror(store, files)
    mirror.push()
    (files / "log.jsonl").rename(tmp_path / "away")
    mirror.push()
    (tmp_path / "away").rename(files / "log.jsonl")  # of the same size and time
    mirror.push()
    assert log_of(pulled()) == "one\n"


def test_a_run_that_was_removed_and_started_again_is_taken_over_as_it_is(store, files, tmp_path):
    Mirror(store, files).push()
    late = Mirror(store, files)
    for name in store.sizes():
        store.remove(name)
    there = tmp_path / "there"
    write_log(there, "anew\n")
    Mirror(store, there).push()  # number 1 again
    write_log(files, "one\ntwo\n")
    with pytest.raises(OvertakenError):
        late.push()
    Mirror(store, files).pull()
    assert log_of(files) == "anew\n"


def test_who_looks_at_a_run_while_it_is_pushed_sees_one_push(place, store, files, tmp_path, monkeypatch):
    mirror, others = Mirror(store, files), store_at(place)
    mirror.push()
    download, pushed = others.download, threading.Lock()

    def meanwhile(name, path):
        with pushed:  # files are brought side by side: none is before the push is over
            if (files / "log.jsonl").read_text() == "one\n":
                (files / "log.jsonl").write_text("one\ntwo\n")
                (files / "graph/manifest.json").write_text("{2}")
                mirror.push()
        download(name, path)

    monkeypatch.setattr(others, "download", meanwhile)
    Mirror(others, tmp_path / "there").pull()
    assert (tmp_path / "there/log.jsonl").read_text() == "one\ntwo\n"
    assert (tmp_path / "there/graph/manifest.json").read_text() == "{2}"


def test_what_is_gone_here_goes_there_and_what_others_have_begun_stays(store, files):
    mirror = Mirror(store, files)
    mirror.push()
    store.write(".pushes/00000003-other/log.jsonl", b"begun")
    (files / "graph/indices.arrow").unlink()
    mirror.push()
    names = sorted(name.replace(mirror._name, "NAME") for name in store.sizes())
    assert names == [
        ".pushes/00000001-NAME/graph/manifest.json", ".pushes/00000001-NAME/log.jsonl", ".pushes/00000002.json",
        ".pushes/00000003-other/log.jsonl", "log.jsonl",
    ]  # fmt: skip


def test_who_may_not_work_in_the_copy_does_not_push_it(place, store):
    def refused():
        with working_copy(place) as folder:
            folder.mkdir(parents=True)
            (folder / "log.jsonl").write_text("by the one who works there")
            raise LeaseError("another process works there")

    with pytest.raises(LeaseError):
        refused()
    assert not [name for name in store.sizes() if name.endswith(".json")]


def overtaken_at_work(store, folder, there):
    """Work that another machine overtakes."""
    Mirror(store, there).pull()
    (there / "log.jsonl").write_text("by another machine")
    Mirror(store, there).push()
    (folder / "log.jsonl").write_text("here")
    time.sleep(30)


def overtaken_on_the_command_line(*arguments):
    """The same, where an interrupt becomes an exit code."""
    try:
        overtaken_at_work(*arguments)
    except KeyboardInterrupt:
        sys.exit(130)


@pytest.mark.parametrize("work", [overtaken_at_work, overtaken_on_the_command_line])
def test_who_is_overtaken_is_told_at_once(place, store, files, tmp_path, monkeypatch, work):
    monkeypatch.setattr("gscl_scale.storage.mirror._EVERY_S", 0.2)
    Mirror(store, files).push()
    began = time.monotonic()
    with (
        pytest.raises(OvertakenError, match="another process works in this run folder"),
        working_copy(place) as folder,
    ):
        work(store, folder, tmp_path / "there")
    assert time.monotonic() - began < 20


def test_what_is_made_from_a_run_to_look_at_is_not_in_the_copy_to_work_on(place, tmp_path):
    found = LocatedRun(place, Run.at(tmp_path / "looked at"), own=False)
    assert cache_of(place) not in place_for(found, "embeddings/index").parents


def test_damaged_bytes_in_the_store_are_named(store, files, tmp_path):
    Mirror(store, files).push()
    key = next(name for name in store.sizes() if name.endswith("graph/indices.arrow"))
    store.remove(key)
    store.write(key, b"x" * 3_000_000)
    with pytest.raises(FolderError, match=r"graph/indices\.arrow does not match its checksum"):
        Mirror(store, tmp_path / "there").pull()
    assert not (tmp_path / "there/graph/indices.arrow").exists()


def test_to_look_at_a_run_only_small_files_are_brought(place, store, files):
    Mirror(store, files).push()
    with small_files(place) as folder:
        assert sorted(content(folder)) == ["graph/manifest.json", "log.jsonl"]
    assert not folder.exists()


def test_a_store_that_cannot_be_written_is_told_before_the_work(place, s3):
    with (
        pytest.raises(FolderError, match=r"s3://no-such-bucket/run/\.pushes/.*probe: .*that this machine may read"),
        working_copy("s3://no-such-bucket/run"),
    ):
        pytest.fail("the work has begun")


def test_a_folder_is_worked_on_where_it_is(place, tmp_path):
    with working_copy(str(tmp_path)) as folder:
        assert folder == tmp_path


def test_a_run_on_s3_goes_on_on_another_machine(place, tmp_path):
    write_tables(tmp_path)
    one = cli("precompute", "--config", "quick.yaml", "--run", place, cwd=tmp_path)
    assert one.returncode == 0, one.stderr
    assert f"samples are in {place}/samples" in one.stdout
    shutil.rmtree(cache_of(place))
    other = cli("run", "--config", "quick.yaml", "--run", place, cwd=tmp_path)
    assert other.returncode == 0, other.stderr
    assert f"{place}/embeddings/embeddings.parquet" in other.stdout
    local = cli("run", "--config", "quick.yaml", "--run", "here", cwd=tmp_path)
    assert local.returncode == 0, local.stderr
    kept = store_at(place).read("embeddings/embeddings.parquet")
    assert kept == (tmp_path / "here/embeddings/embeddings.parquet").read_bytes()
    log = [json.loads(line) for line in store_at(place).read("log.jsonl").decode().splitlines()]
    begun = [line["stage"] for line in log if line["event"] == "started"]
    assert sorted(begun) == ["embed", "evaluate", "ingest", "precompute", "report", "train"]  # each once
    shutil.rmtree(cache_of(place))
    status = cli("status", "--config", "quick.yaml", "--run", place, "--json", cwd=tmp_path)
    assert {state["state"] for state in json.loads(status.stdout)} == {"complete"}
    assert not cache_of(place).exists()


def test_errors_name_the_place_that_the_user_knows(place, tmp_path):
    write_tables(tmp_path)
    trained = cli("train", "--config", "quick.yaml", "--run", place, cwd=tmp_path)
    assert trained.returncode == 2
    assert f"gscl-scale: {place}/samples holds no finished samples; run gscl-scale precompute first" in trained.stderr


def test_a_run_on_s3_that_is_killed_goes_on_where_it_was(place, tmp_path):
    write_tables(tmp_path)
    slow = ["--set", "train.epochs=100000", "--set", "train.checkpoint_every=1"]
    words = ["run", "--config", "quick.yaml", "--run", place, *slow]
    manifest, log = cache_of(place) / "checkpoints/manifest.json", cache_of(place) / "log.jsonl"

    def started(until):
        process, latest = begin_command(*words, cwd=tmp_path), time.monotonic() + 60
        while not until():
            assert time.monotonic() < latest
            assert process.is_alive()
            time.sleep(0.01)
        return process

    process = started(manifest.exists)
    process.kill()
    process.join()
    reached = json.loads(manifest.read_text())["checkpoints"][-1]["epoch"]
    process = started(lambda: '"resumed"' in log.read_text())
    process.terminate()
    process.join(60)
    assert process.exitcode == 1
    resumed = [json.loads(line) for line in log.read_text().splitlines() if '"resumed"' in line]
    assert resumed[0]["epoch"] >= reached
    assert b'"stopped"' in store_at(place).read("log.jsonl")  # the push at the end
