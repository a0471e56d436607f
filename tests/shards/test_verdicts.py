"""Files of rounds are checked once: in a process, and among the processes of a machine."""

import json
import os
import threading
import time

import pytest

from gscl_scale.config.sections import RingsConfig
from gscl_scale.errors import FolderError
from gscl_scale.io.verdicts import Verdicts
from gscl_scale.shards import reader
from gscl_scale.shards.checked_rounds import CheckedRounds
from gscl_scale.shards.reader import Samples
from tests.forked import begin
from tests.graphs import make_graph, make_samples, random_edges

ROUNDS, PARTS = 3, 4
RINGS = RingsConfig(hops=2, width=8, per_ring=4, beyond=6, rounds=ROUNDS, part_anchors=50)


@pytest.fixture
def folder(tmp_path):
    """A folder with a graph of 200 nodes, and samples of three rounds of four parts."""
    make_graph(tmp_path / "graph", random_edges(200, 500, seed=1), 200)
    make_samples(tmp_path / "graph", tmp_path / "samples", RINGS, ROUNDS)
    return tmp_path


@pytest.fixture
def hashed(monkeypatch):
    """The files that were hashed, in order."""
    paths, sha256_of = [], reader.sha256_of
    monkeypatch.setattr(
        reader, "sha256_of", lambda path: paths.append(f"{path.parent.name}/{path.name}") or sha256_of(path)
    )
    return paths


@pytest.mark.parametrize("shared", [False, True])
def test_a_file_is_checked_again_when_it_or_what_is_expected_of_it_has_changed(tmp_path, shared):
    verdicts = Verdicts(tmp_path / "machine" if shared else None)
    file, found = tmp_path / "file", []
    file.write_text("one")

    def verdict(expected, flaw):
        return verdicts.of(file, expected, lambda: found.append(expected) or flaw)

    assert [verdict(expected, "") for expected in ("a", "a", "b")] == ["", "", ""]
    os.utime(file, ns=(1, 1))
    assert [verdict("a", "flaw"), verdict("a", "never")] == ["flaw", "flaw"]
    assert found == ["a", "b", "a"]
    file.unlink()
    assert verdict("a", "gone") == "gone"


def test_a_verdict_that_was_half_written_is_found_again(tmp_path):
    file, machine = tmp_path / "file", tmp_path / "machine"
    file.write_text("content")
    assert Verdicts(machine).of(file, 0, lambda: "a flaw") == "a flaw"
    (kept,) = machine.iterdir()
    for torn in ("", '"a fl'):
        kept.write_text(torn)
        assert Verdicts(machine).of(file, 0, lambda: "another") == "another"


def open_all(file, samples, machine):
    """Open every round, slowly; write which files were hashed here."""
    paths, sha256_of = [], reader.sha256_of

    def slow(path):
        paths.append(f"{path.parent.name}/{path.name}")
        time.sleep(0.1)
        return sha256_of(path)

    reader.sha256_of = slow
    opened, said = Samples.open(samples, Verdicts(machine)), []
    for number in range(opened.num_rounds):
        try:
            opened.round(number)
        except FolderError as error:
            said.append(str(error))
    file.write_text(json.dumps([paths, said]))


def in_two_processes(folder):
    files = [folder / f"{number}.json" for number in range(2)]
    for process in [begin(open_all, file, folder / "samples", folder / "machine") for file in files]:
        process.join(60)
        assert process.exitcode == 0
    return [json.loads(file.read_text()) for file in files]


def test_two_processes_of_a_machine_hash_each_file_once(folder):
    (ours, _), (theirs, _) = in_two_processes(folder)
    assert len(ours) + len(theirs) == len({*ours, *theirs}) == ROUNDS * (PARTS + 1)  # and the priorities of each round


def test_a_damaged_round_is_refused_by_each_process(folder):
    part = folder / "samples" / "round-001" / "part-00002.arrow"
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)
    (ours, said), (theirs, say) = in_two_processes(folder)
    assert said == say
    assert len(said) == 1
    assert said[0].startswith(
        f"{part}: expected {len(content)} bytes with the checksum in the manifest, got other content"
    )
    assert [*ours, *theirs].count("round-001/part-00002.arrow") == 1


def wait_until(said):
    until = time.monotonic() + 20
    while not said():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_only_the_round_in_use_and_the_next_one_are_checked(folder, hashed):
    with CheckedRounds(Samples.open(folder / "samples", Verdicts()), 2) as rounds:
        rounds.of_epoch(0)
        assert {path.partition("/")[0] for path in hashed[: PARTS + 1]} == {"round-000"}
        wait_until(lambda: len(hashed) == 2 * (PARTS + 1))
        rounds.of_epoch(1)
        assert len(hashed) == 2 * (PARTS + 1)  # in the background, once; the last epoch has no next round
    assert {path.partition("/")[0] for path in hashed} == {"round-000", "round-001"}


def test_a_damaged_round_does_not_disturb_the_one_before_it(folder):
    (folder / "samples" / "round-001" / "part-00000.arrow").write_bytes(b"")
    with CheckedRounds(Samples.open(folder / "samples", Verdicts()), 3) as rounds:
        rounds.of_epoch(0)
        with pytest.raises(FolderError, match=r"part-00000\.arrow: expected \d+ bytes .*, got 0 bytes"):
            rounds.of_epoch(1)


def test_a_training_that_ends_waits_for_one_file_at_most(folder, monkeypatch):
    begun, sha256_of = [], reader.sha256_of

    def slow(path):
        begun.append(path)
        if threading.current_thread().name.startswith("checks"):
            time.sleep(0.5)
        return sha256_of(path)

    monkeypatch.setattr(reader, "sha256_of", slow)
    with CheckedRounds(Samples.open(folder / "samples", Verdicts()), 3) as rounds:
        rounds.of_epoch(0)
        wait_until(lambda: len(begun) == PARTS + 2)
    assert len(begun) == PARTS + 2
