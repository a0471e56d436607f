"""What a stage needs of machines: tasks, memory, disk, network and time; and the machines that are planned for."""

from dataclasses import dataclass

from gscl_scale import machine
from gscl_scale.config.config import Config


@dataclass(frozen=True)
class Machines:
    """Machines of one kind.

    memory   bytes that each can give to a run
    here     whether it is this one alone
    """

    number: int
    memory: int
    cores: int
    gpus: int = 0
    here: bool = False

    @classmethod
    def this(cls) -> "Machines":
        """This machine, with what is free on it now."""
        return cls(1, machine.available_memory(), machine.num_cores(), here=True)


@dataclass(frozen=True)
class StageNeed:
    """What a stage takes.

    tasks       parts of the work that run one by one and are recorded when they are finished
    machines    that work at the same time
    processes   that work at the same time on each of them
    allocated   bytes that a process allocates at its peak, the program and its libraries included
    mapped      bytes of files that a process maps and reads; the processes of a machine share them
    random      the part of these that are read at random: without memory for them they are read from disk again and
                again
    disk        bytes that stay
    scratch     bytes of disk until the stage is finished
    network     bytes that the machine with most traffic reads and writes on a shared disk; 0 on one machine
    core_s      seconds of a core
    cores       that work at the same time on all machines
    disk_s      seconds of a machine for what it writes to disk or reads over the network
    refused     why the settings do not allow it whatever memory there is; "" where they do
    """

    stage: str
    tasks: int
    machines: int
    processes: int
    allocated: int
    mapped: int
    random: int
    disk: int
    scratch: int
    network: int
    core_s: float
    cores: int
    disk_s: float
    refused: str = ""

    @property
    def process_bytes(self) -> int:
        """Peak resident memory of a process, where the machine has room for the files that it maps."""
        return self.allocated + self.mapped

    @property
    def least_bytes(self) -> int:
        """Memory without which a machine stops, or reads the disk again and again."""
        return self.processes * self.allocated + self.random

    def fits(self, memory: int) -> bool:
        """Whether it can run on machines with so many bytes of memory."""
        return not self.refused and self.least_bytes <= memory

    @property
    def seconds(self) -> float:
        """Time of the stage."""
        return self.core_s / max(1, self.cores) + self.disk_s


def tasks_at_once(config: Config, machines: Machines) -> int:
    """Tasks at once on a machine."""
    runtime = config.runtime
    if machines.number == 1 and runtime.engine == "local":
        return runtime.workers or machines.cores
    most = max(1, int(machines.cores / runtime.task_cpus))
    return min(most, -(-runtime.workers // machines.number)) if runtime.workers else most
