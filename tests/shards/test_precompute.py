import dataclasses
import filecmp
import itertools
import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gscl_scale.config.sections import RingsConfig
from gscl_scale.errors import ConfigError, FolderError
from gscl_scale.graph.graph import Graph
from gscl_scale.io.json import read_json, read_json_lines, write_json
from gscl_scale.runtime.console import Console
from gscl_scale.shards import levels, task
from gscl_scale.shards.format import map_part, part_path, write_part
from gscl_scale.shards.journal import Journal
from gscl_scale.shards.levels import LevelFiles
from gscl_scale.shards.plan import make_plan
from gscl_scale.shards.precompute import is_complete
from gscl_scale.shards.reader import Samples
from tests.forked import begin_program
from tests.graphs import make_graph, make_samples, random_edges
from tests.rings.checks import assert_same_lists, list_of
from tests.slow import slow

COMMAND = [sys.executable, "-m", "gscl_scale"]
CONFIG = RingsConfig(hops=2, width=8, per_ring=4, beyond=6, rounds=3, part_anchors=37)

KILLED = """
import dataclasses, os, signal, sys
from pathlib import Path
from gscl_scale.config.sections import RingsConfig
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.settings import RunnerSettings
from gscl_scale.runtime.runner import start_runner
from gscl_scale.shards import levels, rounds, task
from gscl_scale.shards.precompute import precompute
levels.PASS_SHIFT = 6

name, after = sys.argv[3], int(sys.argv[4])
body, written = getattr(task, name), 0
def run_then_die(given):
    global written
    record = body(given)
    written += 1
    if written == after:
        os.kill(os.getpid(), signal.SIGKILL)
    return record

setattr(rounds, name, run_then_die)
config = RingsConfig(**eval(sys.argv[5]))
place, memory = Path(sys.argv[2]), int(sys.argv[6])
with start_runner(RunnerSettings(workers=1)) as runner:
    precompute(Path(sys.argv[1]), place, config, 1, runner, Console(place / "log.jsonl", True), memory=memory)
"""


@pytest.fixture(autouse=True)
def passes_of_several_ranges(monkeypatch):
    monkeypatch.setattr(levels, "PASS_SHIFT", 6)


@pytest.fixture(scope="module")
def graph_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph") / "graph"
    make_graph(folder, random_edges(200, 500, seed=0), 200)
    return folder


@pytest.fixture(scope="module", params=["exact", "sketch"])
def config(request):
    return CONFIG.model_copy(update={"engine": request.param})


@pytest.fixture(scope="module")
def reference(graph_folder, config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference") / "samples"
    make_samples(graph_folder, folder, config)
    return folder


def files_of(folder: Path):
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def assert_same_bytes(one: Path, other: Path):
    assert files_of(one) == files_of(other)
    _, different, errors = filecmp.cmpfiles(one, other, files_of(one), shallow=False)
    assert not different
    assert not errors


def flip(path: Path):
    """Damage the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_two_and_three_workers_write_the_bytes_of_one(graph_folder, reference, config, tmp_path):
    for workers in (2, 3):
        make_samples(graph_folder, tmp_path / str(workers), config, workers=workers)
        assert_same_bytes(reference, tmp_path / str(workers))


def test_both_engines_write_the_same_samples(graph_folder, tmp_path):
    for sampling in ("uniform", "pagerank"):
        folders = {}
        for engine in ("exact", "sketch"):
            narrow = {"width": 2, "beyond": 60, "hops": 3, "rounds": 1}
            config = CONFIG.model_copy(update={**narrow, "engine": engine, "sampling": sampling})
            folders[engine] = tmp_path / f"{sampling}-{engine}"
            make_samples(graph_folder, folders[engine], config, console=Console(tmp_path / "log", quiet=True))
        one, other = (Samples.open(folder).round(0) for folder in folders.values())
        for mine, theirs in zip(one.parts, other.parts, strict=True):
            assert_same_lists(mine, theirs)
        assert read_json_lines(tmp_path / "log")[-1]["short"] > 0
        make_samples(graph_folder, folders["sketch"], config, console=Console(tmp_path / "log", quiet=True))
        assert "short" not in read_json_lines(tmp_path / "log")[-1]  # nothing was counted


def killed(graph_folder, samples, config, name, after, memory=0):
    """Run precompute in a process of its own that dies after some tasks of a kind."""
    settings = repr(config.model_dump(mode="json"))
    process = begin_program(KILLED, graph_folder, samples, name, after, settings, memory)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert not (samples / "manifest.json").exists()


def test_a_run_killed_in_the_middle_goes_on_and_ends_with_the_same_bytes(graph_folder, reference, config, tmp_path):
    samples = tmp_path / "samples"
    killed(graph_folder, samples, config, "run_part", 5)
    finished = {path: path.stat().st_mtime_ns for path in (samples / "round-000").glob("part-*")}
    assert finished
    make_samples(graph_folder, samples, config)
    assert_same_bytes(reference, samples)
    kept = [path for path, since in finished.items() if path.stat().st_mtime_ns == since]
    assert len(kept) == 4  # the fifth was written and not yet recorded


@pytest.mark.parametrize(("damaged", "kept"), [(False, 6), (True, 5)])
def test_finished_passes_of_a_killed_run_are_not_made_again_but_damaged_ones(graph_folder, tmp_path, damaged, kept):
    config, samples = CONFIG.model_copy(update={"engine": "sketch", "hops": 3}), tmp_path / "samples"
    make_samples(graph_folder, tmp_path / "reference", config)
    killed(graph_folder, samples, config, "run_pass", 7)  # of 8 in the first round: 2 levels in 4 ranges
    if damaged:
        with (samples / "scratch" / "round-000" / "radius-1" / "tails.raw").open("r+b") as file:
            file.write(b"\xff\xff")
    log = tmp_path / "log.jsonl"
    make_samples(graph_folder, samples, config, console=Console(log, quiet=True))
    assert_same_bytes(tmp_path / "reference", samples)
    done = read_json_lines(log)[-1]
    assert (done["event"], done["passes_kept"], done["passes_computed"]) == ("done", kept, 3 * 8 - kept)


@pytest.mark.parametrize("sampling", ["uniform", "pagerank"])
@pytest.mark.parametrize("hops", [2, *slow(1, 4)])
def test_levels_read_in_tiles_give_the_same_bytes(graph_folder, tmp_path, sampling, hops, monkeypatch):
    config = CONFIG.model_copy(update={"engine": "sketch", "hops": hops, "sampling": sampling})
    make_samples(graph_folder, tmp_path / "whole", config)
    read, load = [], LevelFiles.load
    monkeypatch.setattr(
        LevelFiles, "load", lambda files, *ends, **more: read.append(ends) or load(files, *ends, **more)
    )
    for memory, reads in ((1, 4 * 4), (1 << 30, 1)):  # groups and tiles of one of 4 blocks, and of all
        make_samples(graph_folder, tmp_path / str(memory), config, workers=2, memory=memory)
        assert_same_bytes(tmp_path / "whole", tmp_path / str(memory))
        of_parts = 6 * hops if hops > 1 else 0  # each part reads its own rows of all levels
        assert len(read) == config.rounds * ((hops - 1) * reads + of_parts)
        read.clear()


def advised(folder):
    """Whether the system was told that mapped files of a folder are read at random."""
    maps = Path("/proc/self/smaps").read_text().split("VmFlags:")
    return any(f"{folder}/" in before and " rr" in after.splitlines()[0] for before, after in itertools.pairwise(maps))


def test_the_graph_is_read_at_random_by_searches_alone(graph_folder, tmp_path, monkeypatch):
    config, graph, seen = CONFIG.model_copy(update={"engine": "sketch", "hops": 2}), Graph.open(graph_folder), []
    read = task.read_rings
    monkeypatch.setattr(task, "read_rings", lambda *given: seen.append(advised(graph_folder)) or read(*given))
    make_samples(graph_folder, tmp_path / "samples", config, memory=1)
    assert all(seen)
    assert not advised(graph_folder)
    assert graph.indices.size  # it stays mapped


def test_a_run_that_reads_tiles_makes_only_what_a_killed_one_has_not(graph_folder, tmp_path):
    config, samples = CONFIG.model_copy(update={"engine": "sketch", "hops": 3}), tmp_path / "samples"
    make_samples(graph_folder, tmp_path / "reference", config)
    killed(graph_folder, samples, config, "run_pass", 11, memory=1)  # of 12 in the first round: 3 levels in 4 ranges
    with (samples / "scratch" / "round-000" / "radius-2" / "table.raw").open("r+b") as file:
        file.write(b"\xff\xff\xff\xff")  # of the first block
    log = tmp_path / "log.jsonl"
    make_samples(graph_folder, samples, config, console=Console(log, quiet=True), memory=1 << 30)
    assert_same_bytes(tmp_path / "reference", samples)
    done = read_json_lines(log)[-1]
    assert (done["event"], done["passes_kept"], done["passes_computed"]) == ("done", 9, 3 * 12 - 9)


def test_finished_samples_are_complete_and_not_made_again(graph_folder, reference, config):
    graph = Graph.open(graph_folder)
    assert is_complete(reference, graph, config, 1)
    before = {path: (reference / path).stat().st_mtime_ns for path in files_of(reference)}
    make_samples(graph_folder, reference, config)
    parts = [path for path in before if path.name.startswith("part-")]
    assert all((reference / path).stat().st_mtime_ns == before[path] for path in parts)


def test_more_rounds_are_added_to_what_is_there(graph_folder, reference, tmp_path, config):
    make_samples(graph_folder, tmp_path / "samples", config.model_copy(update={"rounds": 1}), 1)
    assert not is_complete(tmp_path / "samples", Graph.open(graph_folder), config, 1)
    make_samples(graph_folder, tmp_path / "samples", config, 1)
    assert_same_bytes(reference, tmp_path / "samples")


def test_another_configuration_is_refused_with_the_key(graph_folder, reference, config):
    other = config.model_copy(update={"hops": 3})
    with pytest.raises(FolderError, match=r"made with rings\.hops = 2, now it is 3"):
        make_samples(graph_folder, reference, other, 1)


def test_another_graph_is_refused(reference, tmp_path, config):
    make_graph(tmp_path / "graph", random_edges(200, 500, seed=1), 200)
    with pytest.raises(FolderError, match="samples of another graph"):
        make_samples(tmp_path / "graph", reference, config, 1)


def test_an_unfinished_folder_of_another_configuration_is_refused_too(graph_folder, tmp_path, config):
    samples = tmp_path / "samples"
    make_samples(graph_folder, samples, config, 1)
    manifest = read_json(samples / "manifest.json")
    (samples / "manifest.json").rename(samples / "progress.jsonl")
    (samples / "progress.jsonl").write_text(
        f'{{"graph_fingerprint": "{manifest["graph_fingerprint"]}", "rings": {{"seed": 5}}}}\n'
    )
    with pytest.raises(FolderError, match="made with rings"):
        make_samples(graph_folder, samples, config, 1)


def test_samples_of_an_earlier_version_are_read_but_not_added_to(graph_folder, reference, tmp_path, config):
    samples = tmp_path / "samples"
    shutil.copytree(reference, samples)
    manifest = {**read_json(samples / "manifest.json"), "format": 1}
    write_json(samples / "manifest.json", manifest)
    assert is_complete(samples, Graph.open(graph_folder), config, 1)
    Samples.open(samples).round(0)
    with pytest.raises(FolderError, match=r"begun by an earlier version .* choose another --run, or delete"):
        make_samples(graph_folder, samples, config.model_copy(update={"rounds": 4}), 1)
    (samples / "manifest.json").unlink()
    head = {name: manifest[name] for name in ("graph_fingerprint", "rings")}
    (samples / "progress.jsonl").write_text(json.dumps(head) + "\n")
    with pytest.raises(FolderError, match=r"begun by an earlier version .* choose another --run, or delete"):
        make_samples(graph_folder, samples, config, 1)


def test_a_part_of_an_earlier_version_has_no_bits_of_the_lowest_nodes(reference, tmp_path):
    part = map_part(part_path(reference, 0, 1))
    write_part(tmp_path / "part.arrow", dataclasses.replace(part, near=None))
    assert map_part(tmp_path / "part.arrow").near is None
    assert part.near is not None


@pytest.mark.parametrize("name", ["part-00003.arrow", "priorities.arrow"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_a_damaged_file_is_named_when_read_and_repaired_by_the_next_precompute(
    graph_folder, reference, tmp_path, damage, name, config
):
    samples = tmp_path / "samples"
    make_samples(graph_folder, samples, config, 1)
    part = samples / "round-001" / name
    if damage == "flip":
        flip(part)
    elif damage == "truncate":
        part.write_bytes(part.read_bytes()[:-100])
    else:
        part.unlink()
    with pytest.raises(FolderError, match=rf"{name}.*precompute again"):
        Samples.open(samples).round(1)
    make_samples(graph_folder, samples, config, 1)
    assert_same_bytes(reference, samples)


def test_rounds_stop_at_the_disk_that_is_allowed(graph_folder, reference, tmp_path, config):
    round_bytes = sum(path.stat().st_size for path in (reference / "round-000").glob("part-*"))
    capped = config.model_copy(update={"rounds": "epoch", "disk_gb": 2.5 * round_bytes / 1e9})
    make_samples(graph_folder, tmp_path / "samples", capped, 50)
    assert Samples.open(tmp_path / "samples").num_rounds == 2
    assert is_complete(tmp_path / "samples", Graph.open(graph_folder), capped, 50)
    more = capped.model_copy(update={"disk_gb": 3.5 * round_bytes / 1e9})
    assert not is_complete(tmp_path / "samples", Graph.open(graph_folder), more, 50)
    with pytest.raises(ConfigError, match=r"rings\.rounds: 9 rounds .* at most 2 rounds"):
        make_samples(graph_folder, tmp_path / "other", capped.model_copy(update={"rounds": 9}), 50)


def test_what_is_recorded_after_half_a_line_is_kept(graph_folder, reference, tmp_path):
    samples, config = tmp_path / "samples", CONFIG.model_copy(update={"engine": "exact"})
    make_samples(graph_folder, samples, config, 1)
    plan = make_plan(Graph.open(graph_folder), samples, config)[0]
    records = list(Journal(samples, plan).parts().values())
    (samples / "manifest.json").unlink()
    with (samples / "progress.jsonl").open("a") as file:
        file.write('{"part": {"round_nu')  # the disk was full
    journal = Journal(samples, plan)
    journal.begin()
    for record in records:
        journal.append({"part": record})
    assert len(Journal(samples, plan).parts()) == len(records) > 0


def test_every_round_and_seed_gives_other_samples(graph_folder, reference, tmp_path, config):
    one, two = (Samples.open(reference).round(number) for number in (0, 1))
    assert one.parts[0].beyond.members.tolist() != two.parts[0].beyond.members.tolist()
    make_samples(graph_folder, tmp_path / "samples", config.model_copy(update={"seed": 1}), 1)
    other = Samples.open(tmp_path / "samples").round(0)
    assert one.parts[0].beyond.members.tolist() != other.parts[0].beyond.members.tolist()


def test_rows_are_taken_in_the_order_asked_for(reference, config):
    reader = Samples.open(reference).round(0)
    anchors = np.random.default_rng(0).permutation(200)[:60]
    taken = reader.take(anchors)
    for row, anchor in enumerate(anchors):
        part = next(part for part in reader.parts if part.anchors[0] <= anchor <= part.anchors[-1])
        at = anchor - part.anchors[0]
        assert [list_of(lists, row) for lists in taken.lists] == [list_of(lists, at) for lists in part.lists]
        assert taken.decided[row] == part.decided[at]
        assert taken.ring_size[row].tolist() == part.ring_size[at].tolist()


def test_independent_samples_have_no_common_priorities(graph_folder, tmp_path):
    config = CONFIG.model_copy(update={"sharing": "independent", "sampling": "pagerank", "rounds": 1})
    make_samples(graph_folder, tmp_path / "samples", config, 1)
    assert Samples.open(tmp_path / "samples").round(0).priorities is None


LIMITED = """
import resource, signal, sys
from pathlib import Path
from gscl_scale.cli import main as cli
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.argv = ["gscl-scale", *sys.argv[2:]]
cli.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["exact", "sketch"])
def test_a_disk_that_takes_no_more_is_told_in_one_sentence_and_a_repeat_goes_on(tmp_path, engine):
    settings = {
        "graph.source": "synthetic", "graph.preset": "tiny", "rings.engine": engine, "rings.rounds": 1,
        "rings.part_anchors": 100, "rings.hops": 3,
    }  # fmt: skip
    options = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    run, other = tmp_path / "run", tmp_path / "other"
    for folder in (run, other):
        subprocess.run([*COMMAND, "ingest", *options, "--run", folder], check=True, capture_output=True)
    subprocess.run([*COMMAND, "precompute", *options, "--run", other], check=True, capture_output=True)
    command = [sys.executable, "-c", LIMITED, "60000", "precompute", *options, "--run", run]
    full = subprocess.run(command, check=False, capture_output=True, text=True)
    assert full.returncode == 1, full.stderr
    told = full.stderr.strip().splitlines()[-1]
    assert re.fullmatch(r"gscl-scale: \S+(part-0000\d\.arrow|\.raw): File too large; .* rerun the command", told), told
    assert not (run / "samples" / "manifest.json").exists()
    assert not list(run.rglob("*.tmp"))
    subprocess.run([*COMMAND, "precompute", *options, "--run", run], check=True, capture_output=True)
    assert_same_bytes(run / "samples", other / "samples")
