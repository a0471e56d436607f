import filecmp
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gscl_scale.config import RingsConfig
from gscl_scale.errors import ConfigError, FolderError
from gscl_scale.files import read_json
from gscl_scale.runtime import Console, local
from gscl_scale.shards import Samples, is_complete, precompute
from tests.graphs import make_graph, random_edges

CONFIG = RingsConfig(hops=2, width=8, per_ring=4, beyond=6, rounds=3, part_anchors=37)
QUIET = Console(quiet=True)

KILLED_AFTER_FIVE_PARTS = """
import os, signal, sys
from pathlib import Path
from gscl_scale.config import RingsConfig
from gscl_scale.runtime import Console
from gscl_scale.shards import precompute, task
module = sys.modules[precompute.__module__]

written = 0
def run_part_then_die(part):
    global written
    record = task.run_part(part)
    written += 1
    if written == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return record

module.run_part = run_part_then_die
config = RingsConfig(hops=2, width=8, per_ring=4, beyond=6, rounds=3, part_anchors=37)
precompute(Path(sys.argv[1]), Path(sys.argv[2]), config, 1, 1, Console(quiet=True))
"""


@pytest.fixture(scope="module")
def graph_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph") / "graph"
    make_graph(folder, random_edges(200, 500, seed=0), 200)
    return folder


@pytest.fixture(scope="module")
def reference(graph_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference") / "samples"
    precompute(graph_folder, folder, CONFIG, 1, 1, QUIET)
    return folder


def files_of(folder: Path):
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def assert_same_bytes(one: Path, other: Path):
    assert files_of(one) == files_of(other)
    _, different, errors = filecmp.cmpfiles(one, other, files_of(one), shallow=False)
    assert not different
    assert not errors


def test_two_and_three_processes_write_the_bytes_of_one(graph_folder, reference, tmp_path, monkeypatch):
    monkeypatch.setattr(local, "INLINE_S", 0.0)
    for workers in (2, 3):
        precompute(graph_folder, tmp_path / str(workers), CONFIG, 1, workers, QUIET)
        assert_same_bytes(reference, tmp_path / str(workers))


def test_a_run_killed_in_the_middle_goes_on_and_ends_with_the_same_bytes(graph_folder, reference, tmp_path):
    samples = tmp_path / "samples"
    ended = subprocess.run([sys.executable, "-c", KILLED_AFTER_FIVE_PARTS, graph_folder, samples], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert not (samples / "manifest.json").exists()
    finished = {path: path.stat().st_mtime_ns for path in (samples / "round-000").glob("part-*")}
    assert finished
    precompute(graph_folder, samples, CONFIG, 1, 1, QUIET)
    assert_same_bytes(reference, samples)
    kept = [path for path, since in finished.items() if path.stat().st_mtime_ns == since]
    assert len(kept) == 4  # the fifth was written and not yet recorded


def test_a_killed_worker_process_is_reported_and_finished_parts_are_kept(graph_folder, reference, tmp_path):
    samples = tmp_path / "samples"
    script = (
        "import sys; from pathlib import Path; from gscl_scale.config import RingsConfig; "
        "from gscl_scale.runtime import local; local.INLINE_S = 0.0; "
        "from gscl_scale.runtime import Console; from gscl_scale.shards import precompute\n"
        "if __name__ == '__main__':\n"
        "    config = RingsConfig(hops=2, width=8, per_ring=4, beyond=6, rounds=300, part_anchors=37)\n"
        "    precompute(Path(sys.argv[1]), Path(sys.argv[2]), config, 1, 2, Console(quiet=True))\n"
    )
    program = tmp_path / "program.py"
    program.write_text(script)
    process = subprocess.Popen([sys.executable, program, graph_folder, samples], stderr=subprocess.PIPE, text=True)
    workers: list[int] = []
    while not workers and process.poll() is None:
        time.sleep(0.02)
        if (samples / "round-001" / "part-00002.arrow").exists():
            workers = spawned_workers(process.pid)
    os.kill(workers[0], signal.SIGKILL)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "a worker process died" in told
    done = len((samples / "progress.jsonl").read_text().splitlines())
    assert done > 5


def spawned_workers(parent: int) -> list[int]:
    """Children of a process that run tasks."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(c) for c in children if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()]


def test_finished_samples_are_complete_and_not_made_again(graph_folder, reference):
    graph = make_graph_opened(graph_folder)
    assert is_complete(reference, graph, CONFIG, 1)
    before = {path: (reference / path).stat().st_mtime_ns for path in files_of(reference)}
    precompute(graph_folder, reference, CONFIG, 1, 1, QUIET)
    parts = [path for path in before if path.name.startswith("part-")]
    assert all((reference / path).stat().st_mtime_ns == before[path] for path in parts)


def make_graph_opened(folder):
    from gscl_scale.graph import Graph

    return Graph.open(folder)


def test_more_rounds_are_added_to_what_is_there(graph_folder, reference, tmp_path):
    precompute(graph_folder, tmp_path / "samples", CONFIG.model_copy(update={"rounds": 1}), 1, 1, QUIET)
    assert not is_complete(tmp_path / "samples", make_graph_opened(graph_folder), CONFIG, 1)
    precompute(graph_folder, tmp_path / "samples", CONFIG, 1, 1, QUIET)
    assert_same_bytes(reference, tmp_path / "samples")


def test_another_configuration_is_refused_with_the_key(graph_folder, reference):
    other = CONFIG.model_copy(update={"hops": 3})
    with pytest.raises(FolderError, match=r"made with rings\.hops = 2, now it is 3"):
        precompute(graph_folder, reference, other, 1, 1, QUIET)


def test_another_graph_is_refused(reference, tmp_path):
    make_graph(tmp_path / "graph", random_edges(200, 500, seed=1), 200)
    with pytest.raises(FolderError, match="samples of another graph"):
        precompute(tmp_path / "graph", reference, CONFIG, 1, 1, QUIET)


def test_an_unfinished_folder_of_another_configuration_is_refused_too(graph_folder, tmp_path):
    samples = tmp_path / "samples"
    precompute(graph_folder, samples, CONFIG, 1, 1, QUIET)
    manifest = read_json(samples / "manifest.json")
    (samples / "manifest.json").rename(samples / "progress.jsonl")
    (samples / "progress.jsonl").write_text(
        f'{{"graph_fingerprint": "{manifest["graph_fingerprint"]}", "rings": {{"seed": 5}}}}\n'
    )
    with pytest.raises(FolderError, match="made with rings"):
        precompute(graph_folder, samples, CONFIG, 1, 1, QUIET)


@pytest.mark.parametrize("name", ["part-00003.arrow", "priorities.arrow"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_a_damaged_file_is_named_when_read_and_repaired_by_the_next_precompute(
    graph_folder, reference, tmp_path, damage, name
):
    samples = tmp_path / "samples"
    precompute(graph_folder, samples, CONFIG, 1, 1, QUIET)
    part = samples / "round-001" / name
    content = bytearray(part.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
        part.write_bytes(content)
    elif damage == "truncate":
        part.write_bytes(content[:-100])
    else:
        part.unlink()
    with pytest.raises(FolderError, match=rf"{name}.*precompute again"):
        Samples.open(samples).round(1)
    precompute(graph_folder, samples, CONFIG, 1, 1, QUIET)
    assert_same_bytes(reference, samples)


def test_rounds_stop_at_the_disk_that_is_allowed(graph_folder, reference, tmp_path):
    round_bytes = sum(path.stat().st_size for path in (reference / "round-000").glob("part-*"))
    config = CONFIG.model_copy(update={"rounds": "epoch", "disk_gb": 2.5 * round_bytes / 1e9})
    precompute(graph_folder, tmp_path / "samples", config, 50, 1, QUIET)
    assert Samples.open(tmp_path / "samples").num_rounds == 2
    assert is_complete(tmp_path / "samples", make_graph_opened(graph_folder), config, 50)
    with pytest.raises(ConfigError, match=r"rings\.rounds: 9 rounds .* at most 2 rounds"):
        precompute(graph_folder, tmp_path / "other", config.model_copy(update={"rounds": 9}), 50, 1, QUIET)


def test_every_round_and_seed_gives_other_samples(graph_folder, reference, tmp_path):
    one, two = (Samples.open(reference).round(number) for number in (0, 1))
    assert one.parts[0].beyond.members.tolist() != two.parts[0].beyond.members.tolist()
    precompute(graph_folder, tmp_path / "samples", CONFIG.model_copy(update={"seed": 1}), 1, 1, QUIET)
    other = Samples.open(tmp_path / "samples").round(0)
    assert one.parts[0].beyond.members.tolist() != other.parts[0].beyond.members.tolist()


def test_rows_are_taken_in_the_order_asked_for(reference):
    reader = Samples.open(reference).round(0)
    anchors = np.random.default_rng(0).permutation(200)[:60]
    taken = reader.take(anchors)
    for row, anchor in enumerate(anchors):
        part = next(part for part in reader.parts if part.anchors[0] <= anchor <= part.anchors[-1])
        at = anchor - part.anchors[0]
        for got, want in zip((*taken.rings, taken.beyond), (*part.rings, part.beyond), strict=True):
            mine = got.members[got.offsets[row] : got.offsets[row + 1]]
            assert mine.tolist() == want.members[want.offsets[at] : want.offsets[at + 1]].tolist()
        assert taken.decided[row] == part.decided[at]
        assert taken.ring_size[row].tolist() == part.ring_size[at].tolist()


def test_independent_samples_have_no_common_priorities(graph_folder, tmp_path):
    config = CONFIG.model_copy(update={"sharing": "independent", "sampling": "pagerank", "rounds": 1})
    precompute(graph_folder, tmp_path / "samples", config, 1, 1, QUIET)
    assert Samples.open(tmp_path / "samples").round(0).priorities is None
