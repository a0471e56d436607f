"""Whole pipelines on a real Ray cluster of three machines, and what can befall its processes and machines."""

import contextlib
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.chaos.attempts import Attempt
from tests.chaos.faults import Draw, Fault, Kind, during
from tests.chaos.lanes import DAMAGE, PROCESS, Local
from tests.ray.clusters import Machine, cluster

_LONG_S = 60.0  # what is waited for before a fault, such as the first process of a training
_SHARED_MB = 64
Act = Callable[[psutil.Process], None]
_OTHERS = ("IDLE", "Agent")  # a machine whose agent is gone is gone itself


class OnRay(Local):
    """A head and two further machines of one core, and a training of two processes."""

    name = "a Ray cluster"
    exact = False

    def __init__(self, scratch: Path) -> None:
        super().__init__(scratch)
        self._started = contextlib.ExitStack()
        self._start()

    def _start(self) -> None:
        self.machines = self._started.enter_context(cluster(3, GLOO_SOCKET_IFNAME="lo"))

    def options(self) -> list[object]:
        """The cluster, and a patience that is short."""
        settings = {
            "engine": "ray", "address": self.machines.address, "train_workers": 2, "worker_cpus": 0.5, "timeout_s": 10,
        }  # fmt: skip
        return [word for name, value in settings.items() for word in ("--set", f"runtime.{name}={value}")]

    def kinds(self) -> dict[str, Kind]:
        """What can befall it."""
        own = {
            "task killed": self._to_worker(False, signal.SIGKILL),
            "task stopped for a while": self._to_worker(False, signal.SIGSTOP, signal.SIGCONT),
            "training process killed": self._to_worker(True, signal.SIGKILL),
            "training process silent": self._to_worker(True, signal.SIGSTOP),
            "worker out of memory": self._out_of_memory,
            "machine lost": self._machine_lost,
            "machine frozen, and back": self._machine_frozen,
            "machine joins": self._machine_joins,
            "machine with 64 MB of shared memory": self._little_shared,
            "cluster lost": self._cluster_lost,
            "two at the same time": self._twice,
        }
        drivers = ("driver killed", "driver told to stop", "driver interrupted", "clock jumps")
        damage = ("part of samples flipped", "checkpoint cut off", "manifest gone", "halves of other attempts")
        return {**own, **{name: PROCESS[name] for name in drivers}, **{name: DAMAGE[name] for name in damage}}

    def story(self, number):
        """A run that has not begun, on a cluster as it should be."""
        self._renew()
        story = super().story(number)
        story.env["RAY_TRAIN_HEALTH_CHECK_INTERVAL_S"] = "0.5"
        return story

    def befall(self, story, fault):
        """See Local; the cluster may be another one than before."""
        self._renew()
        story.words[5:] = self.options()
        return super().befall(story, fault)

    def _renew(self) -> None:
        """Three machines, and a head that lives."""
        if not self.machines.machines[0].has_raylet():
            self.machines.stop()
            self._start()
        self.machines.resize(3)

    def close(self) -> None:
        """Stop all machines."""
        self._started.close()

    # --- what befalls it ---------------------------------------------------------------------------------------------

    def _busy(self, trains: bool) -> list[psutil.Process]:
        found = []
        for machine in self.machines.alive:
            for pid in machine.pids():
                with contextlib.suppress(psutil.Error):
                    process = psutil.Process(pid)
                    title = " ".join(process.cmdline())
                    busy = title.startswith("ray::") and not any(word in title for word in _OTHERS)
                    if busy and ("TrainWorker" in title) == trains:
                        found.append(process)
        return found

    def _on_worker(self, about: str, after: float, which: float, trains: bool, act: Act) -> Fault:
        """Something happens to one of the busy workers, some seconds after the first is."""

        def meanwhile(running: Attempt) -> bool:
            running.wait(_LONG_S, unless=lambda: bool(self._busy(trains)))
            running.wait(after)
            if not running.runs or not (busy := self._busy(trains)):
                return False
            with contextlib.suppress(psutil.NoSuchProcess):
                act(busy[int(which * len(busy))])
            return True

        who = "a training process" if trains else "a worker"
        return Fault(f"{about} {who} {after:.2f} s after the first", meanwhile=meanwhile)

    def _to_worker(self, trains: bool, *signals: signal.Signals) -> Kind:
        def send(process: psutil.Process) -> None:
            for number, sent in enumerate(signals):
                time.sleep(2.0 * number)
                process.send_signal(sent)

        def kind(draw: Draw, whole: float) -> Fault:
            about = f"{', '.join(sent.name for sent in signals)} to"
            return self._on_worker(about, float(draw.uniform(0, 3)), float(draw.random()), trains, send)

        return kind

    def _out_of_memory(self, draw: Draw, whole: float) -> Fault:
        def limit(process: psutil.Process) -> None:
            size = process.memory_info().vms
            process.rlimit(psutil.RLIMIT_AS, (size, size))

        after, which, trains = float(draw.uniform(0, 2)), float(draw.random()), bool(draw.random() < 0.5)
        return self._on_worker("no more memory for", after, which, trains, limit)

    def _another(self, draw: Draw) -> Machine:
        others = self.machines.alive[1:]
        return others[int(draw.integers(len(others)))]

    def _machine_lost(self, draw: Draw, whole: float) -> Fault:
        after, comes = float(draw.uniform(0.5, whole + 5)), bool(draw.random() < 0.5)

        def lose(running: Attempt) -> None:
            self._another(draw).kill()
            if comes:
                self.machines.add()

        return during(f"after {after:.1f} s{', and another one joins' * comes}", after, lose)

    def _machine_frozen(self, draw: Draw, whole: float) -> Fault:
        after, seconds = float(draw.uniform(0.5, whole + 5)), float(draw.uniform(2, 30))

        def freeze(running: Attempt) -> None:
            pids = self._another(draw).pids()
            try:
                _signal(pids, signal.SIGSTOP)
                running.wait(seconds)
            finally:
                _signal(pids, signal.SIGCONT)

        return during(f"after {after:.1f} s for {seconds:.0f} s", after, freeze)

    def _machine_joins(self, draw: Draw, whole: float) -> Fault:
        after = float(draw.uniform(0.5, whole))
        return during(f"after {after:.1f} s", after, lambda running: self.machines.add())

    def _little_shared(self, draw: Draw, whole: float) -> Fault:
        script = f'mount -t tmpfs -o size={_SHARED_MB}m none /dev/shm && exec "$@"'

        def before(folder: Path) -> bool:
            self._another(draw).kill()
            self.machines.add(wrapper=("unshare", "--mount", "sh", "-c", script, "sh"))
            return True

        return Fault(f"one machine has {_SHARED_MB} MB in /dev/shm", before=before)

    def _cluster_lost(self, draw: Draw, whole: float) -> Fault:
        after = float(draw.uniform(0.5, whole + 5))

        def lose(running: Attempt) -> None:
            self.machines.stop()
            self._start()

        return during(f"all machines after {after:.1f} s", after, lose)


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).send_signal(number)
