"""Real Ray clusters of some machines on this one, in processes of their own that are always stopped."""

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil
import ray
from ray._private.state import GlobalState
from ray._raylet import GcsClientOptions

from gscl_scale.runtime.runner import start_runner
from gscl_scale.runtime.settings import RunnerSettings
from tests.ports import free_port

Value = TypeVar("Value")

ROOT = Path(__file__).parent.parent.parent
RAY = Path(sys.executable).parent / "ray"
HEAD_IP = "127.0.0.1"
PATIENCE_S = 200.0  # a machine that works for others as well stands still for a minute now and then

QUICK = {  # a dead machine refuses the next question and is noticed within two seconds; a slow one has ten to answer
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "10000",
    "RAY_health_check_failure_threshold": "2",
    "RAY_metrics_report_interval_ms": "1000",
    "RAY_raylet_start_wait_time_s": "60",  # in place of 30, for a busy machine
}


@dataclass
class Machine:
    """A machine of a cluster: the process `ray start`, and all that it has started."""

    ip: str
    process: subprocess.Popen[bytes]
    log: Path
    metrics_port: int
    seen: set[int] = field(default_factory=set)

    def pids(self) -> list[int]:
        """All processes of the machine that are alive."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                if process.pid in self.seen or os.getsid(process.pid) == self.process.pid:
                    self.seen |= {process.pid, *(child.pid for child in process.children(recursive=True))}
        return [pid for pid in self.seen if _lives(pid)]

    def has_raylet(self) -> bool:
        """Whether Ray lives on it: it ends where one of its own processes has ended."""
        return any(_title(pid).partition(" ")[0].endswith("/raylet") for pid in self.pids())

    def running(self, function: str) -> list[int]:
        """Processes that run this function now."""
        return [pid for pid in self.pids() if _title(pid).startswith(f"ray::{function}")]

    def metrics(self) -> str:
        """What Prometheus would read; nothing while nobody answers."""
        try:
            with urllib.request.urlopen(f"http://{self.ip}:{self.metrics_port}/metrics", timeout=5) as answer:
                text: str = answer.read().decode()
        except OSError:
            return ""
        return text

    def kill(self) -> None:
        """SIGKILL to every process, as when the machine loses power: none is left to tell of another's end."""
        until = time.monotonic() + 20
        while (pids := self.pids()) and time.monotonic() < until:
            for blow, pid in itertools.product((signal.SIGSTOP, signal.SIGKILL), pids):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, blow)
            self.process.poll()
            time.sleep(0.05)
        assert not pids, f"{[_title(pid) for pid in pids]} cannot be killed"
        self.process.wait()


class Cluster:
    """A head and further machines; `address` is what a driver needs."""

    def __init__(self, folder: Path, **env: str) -> None:
        self.folder = folder
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        self.env = {**inherited, **QUICK, "HOME": str(folder), "PYTHONPATH": str(ROOT), **env}
        self.address = f"{HEAD_IP}:{free_port()}"
        self.machines: list[Machine] = []

    def start_head(self, cpus: int, dashboard_port: int = 0, wrapper: tuple[str, ...] = ()) -> Machine:
        """Start the first machine, where drivers attach."""
        shown = ["--include-dashboard", "true", "--dashboard-port", str(dashboard_port)]
        return self._start(
            ["--head", "--port", self.address.rpartition(":")[2], "--temp-dir", str(self.folder / "ray")]
            + (shown if dashboard_port else ["--include-dashboard", "false"]),
            HEAD_IP,
            cpus,
            wrapper,
        )

    def add(
        self, cpus: int = 1, resources: dict[str, float] | None = None, wrapper: tuple[str, ...] = (), **env: str
    ) -> Machine:
        """Start a further machine; `wrapper` is a command that starts it."""
        number = len(self.machines) + 1
        own = ["--temp-dir", str(self.folder / f"ray-{number}"), "--resources", json.dumps(resources or {})]
        return self._start(["--address", self.address, *own], f"127.0.0.{number}", cpus, wrapper, **env)

    @property
    def alive(self) -> list[Machine]:
        """Machines that run, the head first."""
        return [machine for machine in self.machines if machine.process.poll() is None]

    def resize(self, machines: int) -> None:
        """Have so many machines alive, and the head know of the end of the others: it would give them work."""
        for machine in self.alive[machines:]:
            machine.kill()
        if self.alive != self.machines:
            wait_until(lambda: self._known() <= machines)
        for _ in range(len(self.alive), machines):
            self.add()

    def _known(self) -> int:
        """Machines that the head takes to be alive, asked without joining the cluster."""
        state = GlobalState()
        state._initialize_global_state(
            GcsClientOptions.create(self.address, None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=False)
        )
        try:
            return sum(node["Alive"] for node in state.node_table())
        finally:
            state.disconnect()

    def stop(self) -> None:
        """End every process that was started."""
        for machine in reversed(self.machines):
            machine.kill()

    def _start(self, options: list[str], ip: str, cpus: int, wrapper: tuple[str, ...] = (), **env: str) -> Machine:
        log, metrics_port = self.folder / f"machine-{len(self.machines) + 1}.log", free_port()
        common = [
            "--block", "--node-ip-address", ip, "--num-cpus", str(cpus), "--object-store-memory", "80000000",
            "--min-worker-port", "0", "--max-worker-port", "0", "--dashboard-agent-listen-port", "0",
            "--disable-usage-stats", "--metrics-export-port", str(metrics_port),
        ]  # fmt: skip
        command = [*wrapper, RAY, "start", *options, *common]
        for left in (3, 2, 1, 0):  # now and then a raylet does not report, and Ray gives up
            with log.open("ab") as out:
                process = subprocess.Popen(
                    command, env={**self.env, **env}, cwd=self.folder, stdout=out, stderr=subprocess.STDOUT,
                    start_new_session=True,
                )  # fmt: skip
            machine = Machine(ip, process, log, metrics_port)
            self.machines.append(machine)
            if _comes_up(machine):
                break
            machine.kill()
            self.machines.remove(machine)
            assert left, log.read_text(errors="replace")
        return machine


@contextlib.contextmanager
def cluster(
    machines: int,
    cpus: int = 1,
    dashboard_port: int = 0,
    token: str = "",
    head_wrapper: tuple[str, ...] = (),
    **env: str,
) -> Iterator[Cluster]:
    """A cluster of so many machines, stopped at the end whatever happens; where Ray finds a token it wants one."""
    folder = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))  # short: paths of sockets may have 107 characters
    started = Cluster(folder, **env)
    try:
        if token:
            (folder / ".ray").mkdir()
            (folder / ".ray" / "auth_token").write_text(token)
        started.start_head(cpus, dashboard_port, head_wrapper)
        started.resize(machines)
        yield started
    finally:
        started.stop()
        shutil.rmtree(folder, ignore_errors=True)


def alive_ips() -> set[str]:
    """The machines of the cluster that this process has joined."""
    return {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}


@contextlib.contextmanager
def of_size(cluster: Cluster, size: int) -> Iterator[None]:
    """Be part of a cluster that has so many machines."""
    cluster.resize(size)
    with start_runner(RunnerSettings(engine="ray", address=cluster.address)):
        wait_until(lambda: len(alive_ips()) == size)
        yield


@contextlib.contextmanager
def driver(program: str, *words: object, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that runs a program beside the test, and is killed at the end if it lives."""
    command = [sys.executable, "-c", program, *map(str, words)]
    process = subprocess.Popen(command, cwd=ROOT, text=True, **options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_until(condition: Callable[[], Value], seconds: float = PATIENCE_S) -> Value:
    """Wait until a condition holds; what it then is."""
    until = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < until, f"not within {seconds} s"
        time.sleep(0.02)
    return value


def _comes_up(machine: Machine) -> bool:
    """Wait until it says that it runs; whether it does, or has ended or takes too long."""
    until = time.monotonic() + PATIENCE_S
    while machine.process.poll() is None and time.monotonic() < until:
        if "Ray runtime started" in machine.log.read_text(errors="replace"):
            return True
        time.sleep(0.1)
    return False


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _title(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""
