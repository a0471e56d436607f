"""A whole run on three machines with little memory, whatever is killed on the way.

With THREE_MACHINES_NODES=2000000 it is the measurement in docs/ray_training.md, which takes half an hour.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gscl_scale.embed.store import FILE
from tests.ray.clusters import ROOT, Cluster, cluster, wait_until

NODES = int(os.environ.get("THREE_MACHINES_NODES", "10000"))
PATIENCE_S = 60 + NODES / 1000
MACHINE_BYTES = 3 << 30
DRIVER_BYTES = 1 << 30
GROUPS = Path("/sys/fs/cgroup/memory")  # of version 1; where there are none, the machines are not limited
CONFIG = {
    "graph": {
        "source": "synthetic", "preset": "large", "num_nodes": NODES, "mean_degree": 10, "num_features": 32,
        "memory_mb": 256,
    },
    "rings": {"hops": 2, "width": 16, "per_ring": 8, "beyond": 8, "rounds": 1, "part_anchors": NODES // 10},
    "model": {"layers": 2, "width": 64, "projection": 32, "propagation": "sampled", "fanout": [5, 5]},
    "train": {"epochs": 1, "batch_size": 4096, "negatives": 256},
    "evaluate": {"initialisations": 1, "probe_epochs": 30, "probe_weight_decay": [0.0], "random_splits": 1},
    "runtime": {"embed_memory_gb": 0.5},
}  # fmt: skip

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(240 + 10 * PATIENCE_S)]


@pytest.fixture
def groups() -> Iterator[list[Path]]:
    """A group with a limit of memory for each machine and for the driver; none where this process may make none."""
    made: list[Path] = []
    with contextlib.suppress(OSError):
        for name in ("driver", "1", "2", "3"):
            (GROUPS / f"gscl-scale-{os.getpid()}-{name}").mkdir()
            made.append(GROUPS / f"gscl-scale-{os.getpid()}-{name}")
            (made[-1] / "memory.limit_in_bytes").write_text(str(MACHINE_BYTES))
    yield made if len(made) == 4 else []
    for group in made:
        with contextlib.suppress(OSError):  # a process that has just ended may still be listed
            group.rmdir()


def within(groups: list[Path], number: int) -> tuple[str, ...]:
    """The beginning of a command that joins a group."""
    return ("sh", "-c", f'echo $$ > {groups[number]}/cgroup.procs; exec "$@"', "sh") if groups else ()


@contextlib.contextmanager
def three_machines(groups: list[Path]) -> Iterator[Cluster]:
    with cluster(1, GLOO_SOCKET_IFNAME="lo", head_wrapper=within(groups, 1)) as started:
        for number in (2, 3):
            started.add(wrapper=within(groups, number))
        yield started


class Driver:
    """The command in a process, and the most memory that it had beside mapped files."""

    def __init__(self, folder: Path, words: list[str], groups: list[Path], env: dict[str, str]) -> None:
        command = [*within(groups, 0), sys.executable, "-m", "gscl_scale", "run", "--run", str(folder), *words]
        with (folder.parent / "driver.out").open("ab") as out:
            self.process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=out, stderr=out)
        self.peak = 0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        status = Path(f"/proc/{self.process.pid}/status")
        with contextlib.suppress(OSError):
            while found := re.findall(r"(?:RssAnon|RssShmem):\s+(\d+) kB", status.read_text()):
                self.peak = max(self.peak, sum(map(int, found)) << 10)
                time.sleep(0.05)


def test_a_run_on_three_machines_has_the_bytes_of_one_though_a_process_a_machine_and_the_driver_are_killed(
    groups, tmp_path
):
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    words, run = ["--config", str(tmp_path / "config.yaml")], tmp_path / "there"
    with three_machines(groups) as machines:
        there = ["--set", "runtime.engine=ray", "--set", f"runtime.address={machines.address}"]
        there += ["--set", "runtime.worker_cpus=0.5"]

        def started() -> Driver:
            return Driver(run, [*words, *there], groups, machines.env)

        def running(function: str) -> list[int]:
            return [pid for machine in machines.alive for pid in machine.running(function)]

        driver = first = started()
        try:
            os.kill(wait_until(lambda: running("run_part"), PATIENCE_S)[0], signal.SIGKILL)
            wait_until(lambda: running("RayTrainWorker"), PATIENCE_S)
            machines.alive[-1].kill()
            machines.add(wrapper=within(groups, 3))
            wait_until(lambda: running("compute_block"), 3 * PATIENCE_S)
            first.process.kill()
            first.process.wait()
            driver = started()
            assert driver.process.wait(5 * PATIENCE_S) == 0, (tmp_path / "driver.out").read_text()
        finally:
            driver.process.kill()
    command = [sys.executable, "-m", "gscl_scale", "embed", "--run", str(tmp_path / "here"), *words]
    for verb in ("precompute", "train", "embed"):
        subprocess.run([*command[:3], verb, *command[4:]], cwd=ROOT, env=machines.env, check=True, capture_output=True)
    assert (run / "embeddings" / FILE).read_bytes() == (tmp_path / "here/embeddings" / FILE).read_bytes()
    assert (run / "report.html").exists()
    assert 0 < max(first.peak, driver.peak) < DRIVER_BYTES
