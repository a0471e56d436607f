"""Cores, memory, GPUs, shared memory and open files of this machine."""

import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

from gscl_scale.cli.doctor.check import Finding
from gscl_scale.config.runtime import RuntimeConfig
from gscl_scale.machine import available_memory, num_cores, processor_name, usable_cores
from gscl_scale.text import format_bytes

_SHARED = Path("/dev/shm")  # noqa: S108  (only looked at)
_LITTLE_MEMORY, _LITTLE_SHARED, _FEW_FILES = 4 << 30, 1 << 30, 4096


def examine_hardware(config: RuntimeConfig) -> Iterator[Finding]:
    """All resources of the machine that a run needs, except disks."""
    usable, allowed = len(usable_cores()), num_cores()
    limited = f", and the container may use the time of {allowed}" if allowed < usable else ""
    yield Finding("cores", "ok", f"{usable} of {processor_name()}{limited}")
    yield _memory()
    yield from _gpus(config)
    yield _shared(config)
    yield _open_files()


def _memory() -> Finding:
    free = available_memory()
    found = f"{format_bytes(free)} free"
    if free < _LITTLE_MEMORY:
        return Finding("memory", "note", found, "for small graphs only: close other programs, or raise the limit")
    return Finding("memory", "ok", found)


def _gpus(config: RuntimeConfig) -> Iterator[Finding]:
    import torch

    if torch.cuda.is_available():
        yield from map(_gpu, range(torch.cuda.device_count()))
        return
    build = f"torch {torch.__version__} {'finds none' if torch.version.cuda else 'is built for CPUs only'}"
    if config.device == "cuda":
        cure = "install a build of torch for the driver of this machine, or set runtime.device to cpu"
        yield Finding("GPU", "trouble", build, cure)
    elif config.engine == "ray" and config.worker_gpus:
        cure = "training, embedding and evaluation use GPUs of the cluster"
        yield Finding("GPU", "note", f"none here ({build})", cure)
    else:
        yield Finding("GPU", "ok", f"none, and the config needs none ({build})")


def _gpu(number: int) -> Finding:
    """Multiply two matrices: a driver may list a GPU that this build of torch cannot use."""
    import torch

    device = torch.cuda.get_device_properties(number)
    found = f"{device.name}, {format_bytes(device.total_memory)}, compute {device.major}.{device.minor}"
    try:
        ones = torch.ones(8, 8, device=f"cuda:{number}")
        float((ones @ ones).sum())
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        cure = f"torch {torch.__version__} cannot use it ({reason}): install a build for its driver"
        return Finding(f"GPU {number}", "trouble", found, cure)
    return Finding(f"GPU {number}", "ok", found)


def _shared(config: RuntimeConfig) -> Finding:
    """Ray stores arguments and results there; ours are a few bytes, but its workers start slower without room."""
    if not _SHARED.exists():
        return Finding("shared memory", "ok", "this system has no /dev/shm; Ray uses files")
    size = shutil.disk_usage(_SHARED).total
    found = f"{format_bytes(size)} in {_SHARED}"
    if size < _LITTLE_SHARED and config.engine == "ray":
        cure = "Ray will use files in its temporary folder: start the container with --shm-size=2g"
        return Finding("shared memory", "note", found, cure)
    return Finding("shared memory", "ok", found)


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < _FEW_FILES:
        return Finding(
            "open files", "note", f"at most {soft:,}", f"a Ray head needs more: ulimit -n {min(65536, hard)}"
        )
    return Finding("open files", "ok", f"at most {soft:,}")
