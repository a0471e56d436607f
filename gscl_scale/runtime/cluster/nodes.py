"""The machines of a cluster, and how many tasks they have room for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ray

from gscl_scale.errors import ConfigError
from gscl_scale.runtime.settings import RunnerSettings

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_GROUP = "ray.io/node-group"  # a label of machines that KubeRay or the Ray launcher manages


@dataclass(frozen=True)
class Machine:
    """A machine of the cluster: what it has of each resource.

    managed   it belongs to a group of machines, to which an autoscaler may add others
    """

    id: str
    ip: str
    managed: bool
    resources: Mapping[str, float]

    @classmethod
    def of(cls, node: Mapping[str, Any]) -> "Machine":
        """From an entry of `ray.nodes()`."""
        return cls(node["NodeID"], node["NodeManagerAddress"], _GROUP in node.get("Labels", {}), node["Resources"])

    def without(self, cpus: float) -> "Machine":
        """The same with so many cores less."""
        return replace(self, resources={**self.resources, "CPU": max(0.0, self.resources.get("CPU", 0.0) - cpus)})

    def room(self, need: Mapping[str, float]) -> int:
        """Tasks that it can run at once."""
        return min(int(self.resources.get(name, 0.0) / amount + 1e-6) for name, amount in need.items())


def alive_machines(own_cpus: float = 0.0) -> list[Machine]:
    """The machines that there are now; this one without the cores that this process has for itself."""
    here = ray.get_runtime_context().get_node_id() if own_cpus else ""
    machines = [Machine.of(node) for node in ray.nodes() if node["Alive"]]
    return [machine.without(own_cpus) if machine.id == here else machine for machine in machines]


def room(need: Mapping[str, float], machines: Iterable[Machine]) -> int:
    """Tasks that the machines can run at once."""
    return sum(machine.room(need) for machine in machines)


def need_of(settings: RunnerSettings) -> dict[str, float]:
    """What a task reserves, in the words of Ray."""
    memory = {"memory": settings.task_memory_gb * 1e9} if settings.task_memory_gb else {}
    return {"CPU": settings.task_cpus, **memory, **settings.task_resources}


def is_possible(need: Mapping[str, float], machines: Sequence[Machine]) -> bool:
    """Whether a task fits on a machine, or others may be added."""
    return bool(room(need, machines)) or any(machine.managed for machine in machines)


def refuse_impossible(need: Mapping[str, float], machines: Sequence[Machine]) -> None:
    """A task that fits on no machine would wait for ever."""
    if is_possible(need, machines):
        return
    for name, amount in need.items():
        largest = max((machine.resources.get(name, 0.0) for machine in machines), default=0.0)
        if amount > largest:
            raise ConfigError(
                f"{_setting(name)}: a task asks for {_amount(name, amount)}, but no machine of the Ray cluster "
                f"has more than {_amount(name, largest)}; ask for less, or add a larger machine"
            )
    raise ConfigError(
        f"runtime.task_resources: a task asks for {told(need)}, but no machine of the Ray cluster has all of it; "
        "ask for less, or add a larger machine"
    )


def told(need: Mapping[str, float]) -> str:
    """What a task reserves, in words."""
    return ", ".join(_amount(name, value) for name, value in need.items())


def _setting(name: str) -> str:
    return {"CPU": "runtime.task_cpus", "memory": "runtime.task_memory_gb"}.get(name, f"runtime.task_resources.{name}")


def _amount(name: str, value: float) -> str:
    return {"CPU": f"{value:g} cores", "memory": f"{value / 1e9:g} GB"}.get(name, f"{value:g} of {name}")
