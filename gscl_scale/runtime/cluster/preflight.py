"""Whether the machines of a cluster see the same folder, and compute with the same versions."""

import contextlib
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from gscl_scale.errors import FolderError, RunError, TaskError
from gscl_scale.io.atomic import explain_disk_errors
from gscl_scale.runtime.cluster.connect import error_line
from gscl_scale.runtime.cluster.folder_check import PACKAGES, FolderReport, check_folder, installed_versions
from gscl_scale.runtime.cluster.nodes import Machine, alive_machines

_ANSWER_S = 120.0  # under load, a machine that starts its first worker takes some seconds

_Seen = list[tuple[Machine, FolderReport]]


class SharedFolder:
    """A folder that all machines must share; each machine is checked once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._checked: set[str] = set()

    def check(self, machines: Iterable[Machine]) -> None:
        """Check the machines that are new."""
        new = [machine for machine in machines if machine.id not in self._checked]
        if new:
            check_shared(self._folder, new)
            self._checked |= {machine.id for machine in new}


def check_shared(folder: Path, machines: Iterable[Machine]) -> None:
    """FolderError if a machine does not see or cannot write the folder, RunError if one has other versions."""
    with _token(folder) as (token, text):
        seen = list(_answers({_look_on(machine).remote(token, text): machine for machine in machines}))
    _refuse_blind(folder, seen)
    _refuse_other_versions(seen)


@contextlib.contextmanager
def _token(folder: Path) -> Iterator[tuple[Path, str]]:
    token, text = folder / f".shared-{uuid.uuid4().hex}.tmp", uuid.uuid4().hex
    try:
        with explain_disk_errors(token):
            folder.mkdir(parents=True, exist_ok=True)
            token.write_text(text, encoding="utf-8")
        yield token, text
    finally:
        token.unlink(missing_ok=True)


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
            "mount at the same path"
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
