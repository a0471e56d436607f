"""Ring samples made on a cluster: the bytes of one machine, whatever is killed on the way."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gscl_scale.config.sections import RingsConfig
from gscl_scale.io.json import read_json_lines
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.runner import start_runner
from gscl_scale.runtime.settings import RunnerSettings
from gscl_scale.shards.precompute import precompute
from tests.graphs import make_graph, random_edges
from tests.ray.clusters import ROOT, wait_until
from tests.shards.test_precompute import assert_same_bytes

pytestmark = pytest.mark.ray

NODES, PART, ROUNDS = 120_000, 3_000, 3  # a round has 40 parts, and 8 blocks in each of the two passes of the sketch
CONFIG = RingsConfig(hops=3, width=32, per_ring=8, beyond=16, rounds=ROUNDS, part_anchors=PART)


@pytest.fixture(scope="module")
def graph_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph") / "graph"
    make_graph(folder, random_edges(NODES, 300_000, seed=0), NODES)
    return folder


@pytest.fixture(scope="module", params=[pytest.param("exact", marks=pytest.mark.slow), "sketch"])
def config(request):
    return CONFIG.model_copy(update={"engine": request.param})


@pytest.fixture(scope="module")
def reference(graph_folder, config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference") / "samples"
    with start_runner(RunnerSettings(workers=2)) as runner:
        precompute(graph_folder, folder, config, 1, runner, Console(quiet=True))
    return folder


class Disturbed:
    """A runner that calls `blow` once, beside the work, when so many results have come."""

    def __init__(self, runner, after, blow):
        self.workers, self.check_shared = runner.workers, runner.check_shared
        self._runner, self._after = runner, after
        self._results = 0
        self.blow = threading.Thread(target=blow)

    def run(self, function, tasks):
        for result in self._runner.run(function, tasks):
            self._results += 1
            if self._results == self._after:
                self.blow.start()
            if self.blow.is_alive():
                self.blow.join(0.1)  # the work goes on slowly until the blow has fallen
            yield result


def make(cluster, graph_folder, folder, config, after=0, blow=None):
    with start_runner(RunnerSettings(engine="ray", address=cluster.address)) as runner:
        disturbed = Disturbed(runner, after, blow)
        precompute(graph_folder, folder, config, 1, disturbed, Console(folder.parent / "log.jsonl", quiet=True))
    if after:
        disturbed.blow.join()


@pytest.mark.parametrize("size", [2, 3])
def test_a_cluster_writes_the_bytes_of_one_machine(machines, size, graph_folder, reference, config, tmp_path):
    machines.resize(size)
    make(machines, graph_folder, tmp_path / "samples", config)
    assert_same_bytes(reference, tmp_path / "samples")


@pytest.mark.parametrize(("what", "after"), [("process", 5), ("machine", 25)])
def test_a_killed_process_or_machine_changes_no_byte(three, graph_folder, reference, config, tmp_path, what, after):
    machine, killed = three.alive[-1], []

    def blow():
        killed.extend(wait_until(lambda: machine.running("run_")))
        machine.kill() if what == "machine" else os.kill(killed[0], signal.SIGKILL)

    make(three, graph_folder, tmp_path / "samples", config, after, blow)
    assert killed
    assert len(three.alive) == (2 if what == "machine" else 3)
    assert_same_bytes(reference, tmp_path / "samples")


DRIVER = """
import sys
import threading
from pathlib import Path
from gscl_scale.config.sections import RingsConfig
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.settings import RunnerSettings
from gscl_scale.runtime.runner import start_runner
from gscl_scale.shards.precompute import precompute
address, graph, samples, config = sys.argv[1:]
with start_runner(RunnerSettings(engine="ray", address=address)) as runner:
    precompute(Path(graph), Path(samples), RingsConfig.model_validate_json(config), 1, runner,
               Console(Path(samples).parent / "log.jsonl"))
"""


def recorded(samples: Path, kind: str) -> int:
    return sum(kind in line for line in read_json_lines(samples / "progress.jsonl"))


def test_after_the_driver_was_killed_finished_work_is_not_repeated(two, graph_folder, reference, config, tmp_path):
    after = "pass" if config.engine == "sketch" else "part"
    samples = tmp_path / "samples"
    command = [sys.executable, "-c", DRIVER, two.address, graph_folder, samples, config.model_dump_json()]
    driver = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: recorded(samples, after) >= 5)
    finally:
        driver.kill()
        driver.wait()
    passes, parts = recorded(samples, "pass"), recorded(samples, "part")
    before = {path: path.stat().st_mtime_ns for path in samples.rglob("part-*")}
    assert not (samples / "manifest.json").exists()
    subprocess.run(command, cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
    events = {line["event"]: line for line in read_json_lines(tmp_path / "log.jsonl")}
    if parts:
        assert events["resumed"]["finished_parts"] == parts
    assert events["done"]["computed"] == ROUNDS * NODES // PART - parts
    assert events["done"]["passes_kept"] == passes
    assert sum(path.stat().st_mtime_ns == since for path, since in before.items()) >= parts
    assert_same_bytes(reference, samples)
