"""Whether the machines of a cluster see the same folder, compute with the same versions, and have enough memory."""

import contextlib
import math
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from gscl_scale.errors import ConfigError, FolderError, RunError, TaskError
from gscl_scale.io.atomic import explain_disk_errors, hold_file_lock
from gscl_scale.runtime.cluster.connect import error_line
from gscl_scale.runtime.cluster.folder_check import (
    PACKAGES,
    SLICE,
    FolderReport,
    check_folder,
    installed_versions,
    lock_beside,
    lost_slices,
    slice_content,
    slices_beside,
)
from gscl_scale.runtime.cluster.nodes import Machine, alive_machines
from gscl_scale.runtime.settings import MemoryNeed
from gscl_scale.text import format_bytes

_ANSWER_S = 120.0  # under load, a machine that starts its first worker takes some seconds

FewerTasks = Literal["task_memory_gb", "worker_cpus"]
_RESERVED = {"task_memory_gb": ("tasks", "memory", 1e9), "worker_cpus": ("training processes", "CPU", 1.0)}

_Seen = list[tuple[Machine, FolderReport]]


class SharedFolder:
    """A folder that all machines must share, for work that takes memory; each machine is checked once.

    tasks     how many tasks of the work a machine may have at once
    setting   the key of `runtime` that makes these fewer
    """

    def __init__(self, folder: Path, need: MemoryNeed, tasks: Callable[[Machine], int], setting: FewerTasks) -> None:
        self._folder, self._need, self._tasks, self._setting = folder, need, tasks, setting
        self._checked: set[str] = set()

    def check(self, machines: Iterable[Machine]) -> None:
        """Check the machines that are new."""
        new = [machine for machine in machines if machine.id not in self._checked]
        if new:
            for machine, report in check_shared(self._folder, new):
                refuse_short_memory(machine, self._tasks(machine), self._need, report.memory, self._setting)
            self._checked |= {machine.id for machine in new}


def check_shared(folder: Path, machines: Iterable[Machine]) -> _Seen:
    """What the machines report; FolderError if one does not see the folder or it loses what several write, RunError if
    one has other versions.
    """
    numbered = list(enumerate(machines, 1))
    with _probe(folder, 1 + len(numbered)) as (token, text):
        with _written_late(slices_beside(token)):
            asked = {_look_on(machine).remote(token, text, number): machine for number, machine in numbered}
            seen = list(_answers(asked))
        _refuse_blind(folder, seen)
        _refuse_other_versions(seen)
        answered = {machine.id for machine, _ in seen}
        written = [0, *(number for number, machine in numbered if machine.id in answered)]
        _refuse_lost_slices(folder, slices_beside(token), written)
    return seen


def refuse_short_memory(machine: Machine, tasks: int, need: MemoryNeed, free: int, setting: FewerTasks) -> None:
    """ConfigError if the tasks that a machine may have at once take more memory than it has free."""
    takes = need.shared + tasks * need.each
    if takes <= free or not tasks:
        return
    fit = max(0, free - need.shared) // max(1, need.each)
    cure, (names, resource, unit) = "use machines with more memory", _RESERVED[setting]
    if fit:
        reserved = math.ceil(10 * machine.resources.get(resource, fit * need.each) / fit / unit) / 10
        cure = f"set runtime.{setting} to {reserved:g}, so that at most {fit} run there, or {cure}"
    raise ConfigError(
        f"runtime.{setting}: {tasks} {names} at once take about {format_bytes(takes)} of memory on {machine.ip} of the "
        f"Ray cluster, where {format_bytes(free)} are available; {cure}"
    )


@contextlib.contextmanager
def _probe(folder: Path, slices: int) -> Iterator[tuple[Path, str]]:
    """A token with a text; beside it a lock that this process holds, and a file of empty slices."""
    token, text = folder / f".shared-{uuid.uuid4().hex}.tmp", uuid.uuid4().hex
    try:
        with explain_disk_errors(token), hold_file_lock(lock_beside(token)):
            slices_beside(token).write_bytes(bytes(slices * SLICE))
            token.write_text(text, encoding="utf-8")  # last: whoever sees it sees all
            yield token, text
    finally:
        for path in (token, lock_beside(token), slices_beside(token)):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _written_late(path: Path) -> Iterator[None]:
    """Write slice 0 half before the block and half after it, by the same open file.

    A file system that brings whole files to its server, as those of mounted buckets do, then loses what others have
    written in the block, or refuses the second half: `lost_slices` finds both.
    """
    half = SLICE // 2
    with explain_disk_errors(path):
        file = path.open("r+b", buffering=0)
        file.write(slice_content(0)[:half])
    try:
        yield
    finally:
        with contextlib.suppress(OSError), file:
            file.write(slice_content(0)[half:])


def _look_on(machine: Machine) -> Any:
    place = NodeAffinitySchedulingStrategy(machine.id, soft=False)
    return ray.remote(check_folder).options(num_cpus=0, max_retries=0, scheduling_strategy=place)


def _answers(asked: dict[Any, Machine]) -> Iterator[tuple[Machine, FolderReport]]:
    silent = ray.wait(list(asked), num_returns=len(asked), timeout=_ANSWER_S)[1] if asked else []
    for reference, machine in asked.items():
        if reference in silent:
            raise TaskError(
                f"{machine.ip} of the Ray cluster has not answered within {_ANSWER_S:.0f} s; "
                "check with ray status that it runs, and run again"
            )
        try:
            yield machine, ray.get(reference)
        except RayError as error:
            if machine.id in {other.id for other in alive_machines()}:
                raise RunError(
                    f"{machine.ip} of the Ray cluster cannot run gscl-scale: {error_line(error)}; "
                    "install the same version on all machines, best by one image"
                ) from None


def _refuse_blind(folder: Path, seen: _Seen) -> None:
    for trouble in sorted({sight.trouble for _, sight in seen if sight.trouble}):
        blind = ", ".join(sorted(machine.ip for machine, sight in seen if sight.trouble == trouble))
        raise FolderError(
            f"{folder} is not shared by all machines of the Ray cluster: {blind} {trouble}; "
            "choose a --run folder, or for one on an object store a GSCL_SCALE_CACHE, on a filesystem that all of them "
            "mount at the same path, such as NFS or Lustre"
        )


def _refuse_lost_slices(folder: Path, path: Path, numbers: list[int]) -> None:
    if lost_slices(path, numbers):
        raise FolderError(
            f"{folder} does not keep what several machines write into different parts of one file, as precompute does "
            "(mounted buckets, such as gcsfuse and s3fs, keep the last writer's file); choose a --run folder, or a "
            "GSCL_SCALE_CACHE, on a shared file system such as NFS or Lustre"
        )


def _refuse_other_versions(seen: _Seen) -> None:
    here = installed_versions()
    for machine, sight in seen:
        for name in PACKAGES:
            if sight.versions[name] != here[name]:
                raise RunError(
                    f"{machine.ip} of the Ray cluster has {name} {sight.versions[name]}, this process {here[name]}: "
                    "results could differ; install the same versions on all machines, best by one image"
                )
