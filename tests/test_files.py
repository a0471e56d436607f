"""Files that are complete or absent."""

import errno
import json
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from gscl_scale.errors import FolderError, RunError
from gscl_scale.io import atomic
from gscl_scale.io.arrow import arrow_of, as_rows, map_array, map_arrow, numpy_of, text_of, write_arrow
from gscl_scale.io.atomic import publish_file
from gscl_scale.io.checksum import fingerprint_of, sha256_of
from gscl_scale.io.json import read_json, write_json
from gscl_scale.train.checkpoint import write_state


def test_a_published_file_appears_whole(tmp_path):
    with atomic.publish_file(tmp_path / "below" / "a") as temporary:
        temporary.write_text("new")
        assert not (tmp_path / "below" / "a").exists()
    assert (tmp_path / "below" / "a").read_text() == "new"
    assert [path.name for path in (tmp_path / "below").iterdir()] == ["a"]


def test_a_failure_while_publishing_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "a").write_text("old")

    with pytest.raises(RuntimeError, match="failed"), atomic.publish_file(tmp_path / "a") as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise RuntimeError("failed")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "old"}


def test_where_nothing_can_be_written_the_reason_is_told_with_the_name_that_the_reader_knows(tmp_path, monkeypatch):
    def refuse(number=errno.EROFS, *_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "unlink", lambda *_, **__: refuse())
    says = r"/table\.json: Read-only file system; .* choose another folder"
    with pytest.raises(FolderError, match=says), publish_file(tmp_path / "table.json"):
        refuse()
    says = r"/table\.json: No space left on device; .* rerun the command"
    with pytest.raises(RunError, match=says), publish_file(tmp_path / "table.json"):
        refuse(errno.ENOSPC)


def test_a_checkpoint_that_does_not_fit_the_disk_is_named(tmp_path):
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, limit[1]))
    try:
        with pytest.raises(RunError, match=r"/one\.pt: File too large; .* rerun the command"):
            write_state(tmp_path / "one.pt", {"weight": torch.zeros(1000, 100)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ENOTDIR, errno.EEXIST])
def test_a_place_where_no_folder_can_be_is_bad_input(tmp_path, monkeypatch, number):
    def refuse(path, **_):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(FolderError, match=r"/below: .*; choose another"), publish_file(tmp_path / "below/table.json"):
        pass


def test_a_published_folder_replaces_the_old_one_and_a_failure_or_a_kill_leaves_it_as_it_was(tmp_path):
    def contents():
        return [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))]

    def publish_with(name, fails=False):
        with atomic.publish_folder(tmp_path / "f") as temporary:
            assert not list(temporary.iterdir())
            (temporary / name).touch()
            if fails:
                raise RuntimeError("failed")

    publish_with("first")
    publish_with("second")
    assert contents() == ["f", "f/second"]
    with pytest.raises(RuntimeError, match="failed"):
        publish_with("half", fails=True)
    assert contents() == ["f", "f/second"]
    (tmp_path / ".f.tmp").mkdir()
    (tmp_path / ".f.tmp" / "killed").touch()
    publish_with("third")
    assert contents() == ["f", "f/third"]


def test_arrow_columns_are_mapped_without_a_copy(tmp_path):
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    write_arrow(tmp_path / "a.arrow", {"n": pa.array([1, 2, 3]), "rows": as_rows(rows)})
    before = pa.total_allocated_bytes()
    np.testing.assert_array_equal(map_array(tmp_path / "a.arrow", "rows"), rows)
    assert map_array(tmp_path / "a.arrow", "n").tolist() == [1, 2, 3]
    assert not map_array(tmp_path / "a.arrow", "rows").flags.writeable
    assert pa.total_allocated_bytes() == before


KINDS = ("bool", "int8", "int32", "int64", "uint16", "uint64", "float16", "float32", "float64")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [0, 1, 8, 19])
def test_numbers_become_a_column_and_a_part_of_it_numbers(kind, size):
    values = np.random.default_rng(size).integers(0, 2 if kind == "bool" else 100, 2 * size).astype(kind)
    for given in (values, values[::2], values[::-1]):
        column = arrow_of(given)
        column.validate(full=True)
        assert column.equals(pa.array(np.ascontiguousarray(given)))
        for part in (column, column[size // 3 :], column[size // 3 : size // 2]):
            got = numpy_of(part)
            assert got.dtype == given.dtype
            assert got.tolist() == part.to_pylist()


def test_words_become_a_column_and_bytes_that_are_no_letters_question_marks():
    words = ["", "Ümit", "id-7", "\0"]
    column = text_of(words)
    column.validate(full=True)
    assert column.equals(pa.array(words, pa.large_string()))
    assert text_of(["a\udcff"]).to_pylist() == ["a?"]
    assert text_of([]).to_pylist() == []


@pytest.mark.parametrize("kept", [0, 4, 20, 0.5, 0.99])
def test_a_truncated_arrow_file_is_refused(tmp_path, kept):
    path = tmp_path / "a.arrow"
    write_arrow(path, {"n": pa.array(np.arange(1000))})
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content)) if 0 < kept < 1 else kept])
    with pytest.raises(FolderError, match=r"a.arrow .*delete its folder and run again"):
        map_arrow(path)


def test_what_is_no_arrow_file_of_one_batch_or_not_there_is_refused(tmp_path):
    (tmp_path / "a.arrow").write_bytes(b"x" * 1000)
    batch = pa.record_batch([pa.array([1])], names=["n"])
    with pa.OSFile(str(tmp_path / "two"), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as file:
        file.write_batch(batch)
        file.write_batch(batch)
    for name, sentence in (("a.arrow", "a.arrow"), ("b.arrow", "b.arrow"), ("two", "expected one record batch")):
        with pytest.raises(FolderError, match=sentence):
            map_arrow(tmp_path / name)


def test_json_is_read_back_and_any_bit_that_flips_is_noticed_or_changes_nothing(tmp_path):
    path, written = tmp_path / "a.json", {"share": 0.25, "rows": 90, "name": "é", "parts": [{"crc": 7}], "none": None}
    write_json(path, written)
    assert read_json(path) == written
    content, noticed = path.read_bytes(), 0
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            read = read_json(path)
        except FolderError:
            noticed += 1
        else:
            assert {name: value for name, value in read.items() if name in written} == written
    assert noticed > 4 * len(content)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "does not exist"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[1]", "expected a JSON object"),
    ],
)
def test_json_that_is_missing_or_damaged_is_refused(tmp_path, content, sentence):
    if content is not None:
        (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(FolderError, match=sentence):
        read_json(tmp_path / "a.json")


def test_a_fingerprint_does_not_depend_on_the_order_of_keys():
    assert fingerprint_of({"a": 1, "b": [2]}) == fingerprint_of(json.loads('{"b": [2], "a": 1}'))
    assert fingerprint_of({"a": 1}) != fingerprint_of({"a": 2})


def test_the_checksum_of_a_file_is_that_of_its_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256_of(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_only_one_at_a_time_is_in_a_locked_block_and_a_killed_one_lets_go(tmp_path):
    program = "import sys, time, pathlib; from gscl_scale.io.atomic import hold_file_lock\n"
    program += "with hold_file_lock(pathlib.Path(sys.argv[1])): print('in', flush=True); time.sleep(60)"
    lock, entered = tmp_path / "sub" / "lock", threading.Event()

    def enter():
        with atomic.hold_file_lock(lock):
            entered.set()

    with subprocess.Popen([sys.executable, "-c", program, lock], stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        waiting = threading.Thread(target=enter)
        waiting.start()
        assert not entered.wait(0.2)
        with atomic.hold_file_lock(lock, wait=False) as ours:
            assert not ours
        holder.kill()
        assert entered.wait(10)
        waiting.join()
    with atomic.hold_file_lock(lock, wait=False) as ours:
        assert ours


def test_a_missing_file_of_a_run_names_the_command_that_makes_it(tmp_path):
    with pytest.raises(FolderError, match=r"metrics.json does not exist; run the stage that writes it first"):
        read_json(tmp_path / "metrics.json")
    (tmp_path / "run.json").touch()
    for missing in ("metrics.json", "seed-1/embeddings/manifest.json"):
        with pytest.raises(FolderError, match=f"json does not exist; gscl-scale run --run {tmp_path} makes what is mi"):
            read_json(tmp_path / missing)
