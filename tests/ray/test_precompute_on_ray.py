"""Ring samples made on a cluster: the bytes of one machine, whatever is killed on the way."""

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from gscl_scale.config.sections import RingsConfig
from gscl_scale.io.json import read_json_lines
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.runner import start_runner
from gscl_scale.runtime.settings import RunnerSettings
from gscl_scale.shards.precompute import precompute
from tests.graphs import make_graph, random_edges
from tests.ray.clusters import driver, wait_until
from tests.shards.test_precompute import assert_same_bytes

pytestmark = pytest.mark.ray

NODES, PART, ROUNDS = 80_000, 2_000, 2  # a round has 40 parts, and 5 blocks in each of the two passes of the sketch
CONFIG = RingsConfig(hops=3, width=32, per_ring=8, beyond=16, rounds=ROUNDS, part_anchors=PART)


@pytest.fixture(scope="module")
def graph_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph") / "graph"
    make_graph(folder, random_edges(NODES, 200_000, seed=0), NODES)
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
    """A runner that calls blows beside the work, each when so many results have come."""

    def __init__(self, runner, blows, pool):
        self.workers, self.check_shared = runner.workers, runner.check_shared
        self.task_threads = 2 * runner.task_threads  # as if a task had two cores: these machines have one each
        self._runner, self._blows, self._pool, self._results = runner, blows, pool, 0
        self.fallen = []

    def run(self, function, tasks):
        for result in self._runner.run(function, tasks):
            self._results += 1
            if self._results in self._blows:
                self.fallen.append(self._pool.submit(self._blows[self._results]))
            if self.fallen:
                wait(self.fallen, 1.0)  # the work goes on slowly until the blow has fallen
            yield result


def make(cluster, graph_folder, folder, config, blows, memory=0):
    with start_runner(RunnerSettings(engine="ray", address=cluster.address)) as runner, ThreadPoolExecutor(1) as pool:
        disturbed = Disturbed(runner, blows, pool)
        console = Console(folder.parent / "log.jsonl", quiet=True)
        precompute(graph_folder, folder, config, 1, disturbed, console, memory=memory)
    assert all(blow.result() for blow in disturbed.fallen)
    assert len(disturbed.fallen) == len(blows)


@pytest.mark.parametrize("memory", [0, 8 << 20], ids=["whole levels", "tiles"])
def test_a_cluster_writes_the_bytes_of_one_machine(two, graph_folder, reference, config, memory, tmp_path):
    make(two, graph_folder, tmp_path / "samples", config, {}, memory)
    assert_same_bytes(reference, tmp_path / "samples")


def test_a_killed_process_and_a_killed_machine_change_no_byte(three, graph_folder, reference, config, tmp_path):
    machine = three.alive[-1]

    def kill_process():
        os.kill(wait_until(lambda: machine.running("run_"))[0], signal.SIGKILL)
        return True

    def kill_machine():
        wait_until(lambda: machine.running("run_"))
        machine.kill()
        return True

    make(three, graph_folder, tmp_path / "samples", config, {5: kill_process, 25: kill_machine})
    assert len(three.alive) == 2
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
    command = [DRIVER, two.address, graph_folder, samples, config.model_dump_json()]
    with driver(*command, stderr=subprocess.DEVNULL):
        wait_until(lambda: recorded(samples, after) >= 5)
    passes, parts = recorded(samples, "pass"), recorded(samples, "part")
    before = {path: path.stat().st_mtime_ns for path in samples.rglob("part-*")}
    assert not (samples / "manifest.json").exists()
    with driver(*command, stderr=subprocess.DEVNULL) as again:
        assert again.wait(100) == 0
    events = {line["event"]: line for line in read_json_lines(tmp_path / "log.jsonl")}
    if parts:
        assert events["resumed"]["finished_parts"] == parts
    assert events["done"]["computed"] == ROUNDS * NODES // PART - parts
    assert events["done"]["passes_kept"] == passes
    assert sum(path.stat().st_mtime_ns == since for path, since in before.items()) >= parts
    assert_same_bytes(reference, samples)
