"""The machines of a cluster, and how many tasks they have room for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import ray

from gscl_scale.errors import ConfigError

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_GROUP = "ray.io/node-group"  # a label of machines that KubeRay or the Ray launcher manages


@dataclass(frozen=True)
class Machine:
    """A machine of the cluster and its resources.

    managed   it belongs to a group of machines, to which an autoscaler may add others
    """

    id: str
    ip: str
    managed: bool
    resources: Mapping[str, float]

    def without(self, cpus: float) -> "Machine":
        """The same with so many cores less."""
        return replace(self, resources={**self.resources, "CPU": max(0.0, self.resources.get("CPU", 0.0) - cpus)})

    def room(self, need: Mapping[str, float]) -> int:
        """Tasks that it can run at once."""
        return min(int(self.resources.get(name, 0.0) / amount + 1e-6) for name, amount in need.items())


def alive_machines(own_cpus: float = 0.0) -> list[Machine]:
    """The machines that run now; this one without the cores that this process has for itself."""
    here = ray.get_runtime_context().get_node_id() if own_cpus else ""
    machines = [
        Machine(node["NodeID"], node["NodeManagerAddress"], _GROUP in node.get("Labels", {}), node["Resources"])
        for node in ray.nodes()
        if node["Alive"]
    ]
    return [machine.without(own_cpus) if machine.id == here else machine for machine in machines]


def task_capacity(need: Mapping[str, float], machines: Iterable[Machine]) -> int:
    """Tasks that the machines can run at once."""
    return sum(machine.room(need) for machine in machines)


def is_possible(need: Mapping[str, float], machines: Sequence[Machine], tasks: int = 1) -> bool:
    """Whether so many tasks fit on the machines, or others may be added."""
    return task_capacity(need, machines) >= tasks or any(machine.managed for machine in machines)


def refuse_impossible(need: Mapping[str, float], machines: Sequence[Machine], keys: str = "task") -> None:
    """Refuse a task that fits on no machine: it would wait for ever; `keys` as of `RunnerSettings`."""
    if is_possible(need, machines):
        return
    for name, amount in need.items():
        largest = max((machine.resources.get(name, 0.0) for machine in machines), default=0.0)
        if amount > largest:
            known = {"CPU": f"{keys}_cpus", "GPU": f"{keys}_gpus", "memory": "task_memory_gb"}
            setting = known.get(name, f"task_resources.{name}")
            raise ConfigError(
                f"runtime.{setting}: a task asks for {resources_text({name: amount})}, but no machine of the Ray "
                f"cluster has more than {resources_text({name: largest})}; ask for less, or add a larger machine"
            )
    raise ConfigError(
        f"runtime.task_resources: a task asks for {resources_text(need)}, but no machine of the Ray cluster has all "
        "of it; ask for less, or add a larger machine"
    )


def resources_text(need: Mapping[str, float]) -> str:
    """The resources of a task as a reader wants them.

    >>> resources_text({"CPU": 1, "memory": 2e9}), resources_text({"CPU": 4})
    ('1 core, 2 GB', '4 cores')
    """
    units = {"CPU": (1, " core" if need.get("CPU") == 1 else " cores"), "GPU": (1, " GPU"), "memory": (1e9, " GB")}
    amounts = ((value, *units.get(name, (1, f" of {name}"))) for name, value in need.items())
    return ", ".join(f"{value / size:g}{unit}" for value, size, unit in amounts)
