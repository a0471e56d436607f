"""Settings of how work runs: plain values, known to every engine."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Meter = Callable[[dict[str, float]], None]  # takes the current figures by their names
TrainingBody = Callable[[Any, threading.Event, Meter], None]  # an argument, when to save and stop, where figures go


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes of memory that work takes on a machine: `shared` once, and `each` for every task or process there."""

    shared: int = 0
    each: int = 0


NOTHING = MemoryNeed()


@dataclass(frozen=True)
class RunnerSettings:
    """Where tasks run, how many at once, and what Ray reserves for each; never changes a result.

    workers          tasks at once; 0: one per core of the machine, or as many as the cluster has room for
    address          Ray: the cluster; empty: RAY_ADDRESS, else one that runs on this machine, else one for this run
    task_cpus, task_memory_gb, task_resources   Ray: what each task reserves; 0 GB: memory is not reserved
    task_retries     Ray: how often a task is repeated after its process or machine was lost
    task_gpus        Ray: GPUs that each task reserves
    keys             first half of the names of the keys that say what a task reserves, for messages
    """

    engine: Literal["local", "ray"] = "local"
    workers: int = 0
    address: str = ""
    task_cpus: float = 1.0
    task_memory_gb: float = 0.0
    task_resources: Mapping[str, float] = field(default_factory=dict)
    task_retries: int = 3
    task_gpus: int = 0
    keys: Literal["task", "worker"] = "task"

    @property
    def resources(self) -> dict[str, float]:
        """The resources of a task, named as Ray does."""
        memory = {"memory": self.task_memory_gb * 1e9} if self.task_memory_gb else {}
        gpus = {"GPU": float(self.task_gpus)} if self.task_gpus else {}
        return {"CPU": self.task_cpus, **gpus, **memory, **self.task_resources}


@dataclass(frozen=True)
class TrainingSettings:
    """The processes of one training on a Ray cluster; never changes a result.

    address       as of `RunnerSettings`
    workers       least and most processes; each attempt has as many as there is room for
    cpus, gpus    what each reserves
    timeout_s     a process that is silent for so long has failed
    max_failures  how often the training resumes after a process was lost
    wait_s        how long it waits for room
    """

    address: str = ""
    workers: tuple[int, int] = (1, 1)
    cpus: float = 1.0
    gpus: int = 0
    timeout_s: float = 120.0
    max_failures: int = 3
    wait_s: float = 1800.0

    @property
    def resources(self) -> dict[str, float]:
        """The resources of a process, named as Ray does."""
        return {"CPU": self.cpus, **({"GPU": float(self.gpus)} if self.gpus else {})}
