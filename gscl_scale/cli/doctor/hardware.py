"""Cores, memory, GPUs, shared memory and open files of this machine."""

import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

from gscl_scale.cli.doctor.check import Finding, note, ok, trouble
from gscl_scale.config.runtime import RuntimeConfig
from gscl_scale.machine import available_memory, num_cores, processor_name, usable_cores
from gscl_scale.text import in_words

_SHARED = Path("/dev/shm")  # noqa: S108  (only looked at)
_LITTLE_MEMORY, _LITTLE_SHARED, _FEW_FILES = 4 << 30, 1 << 30, 4096


def examine_hardware(config: RuntimeConfig) -> Iterator[Finding]:
    """Everything that a run takes from the machine, disks apart."""
    yield _cores()
    yield _memory()
    yield from _gpus(config)
    yield _shared(config)
    yield _open_files()


def _cores() -> Finding:
    seen, kept_busy = len(usable_cores()), num_cores()
    limited = f", of which the container is given the time of {kept_busy}" if kept_busy < seen else ""
    return ok("cores", f"{seen} of {processor_name()}{limited}")


def _memory() -> Finding:
    free = available_memory()
    if free < _LITTLE_MEMORY:
        return note(
            "memory", f"{in_words(free)} free", "enough for small graphs only: close others, or raise the limit"
        )
    return ok("memory", f"{in_words(free)} free")


def _gpus(config: RuntimeConfig) -> Iterator[Finding]:
    import torch

    if not torch.cuda.is_available():
        built = f"torch {torch.__version__} {'sees none' if torch.version.cuda else 'is built for CPUs only'}"
        if config.device == "cuda":
            cure = "install a torch that is built for the driver of this machine, or set runtime.device to cpu"
            yield trouble("GPU", built, cure)
        elif config.engine == "ray" and config.worker_gpus:
            where = "workers take theirs from the cluster; embeddings and figures are made here, on the processor"
            yield note("GPU", f"none here ({built})", where)
        else:
            yield ok("GPU", f"none, and none is asked for ({built})")
        return
    for number in range(torch.cuda.device_count()):
        yield _gpu(number)


def _gpu(number: int) -> Finding:
    """One product: a driver may list a GPU that this build of torch cannot use."""
    import torch

    about = torch.cuda.get_device_properties(number)
    found = f"{about.name}, {in_words(about.total_memory)}, compute {about.major}.{about.minor}"
    try:
        ones = torch.ones(8, 8, device=f"cuda:{number}")
        float((ones @ ones).sum())
    except RuntimeError as error:
        cure = f"torch {torch.__version__} cannot use it ({str(error).splitlines()[0]}): install a build for its driver"
        return trouble(f"GPU {number}", found, cure)
    return ok(f"GPU {number}", found)


def _shared(config: RuntimeConfig) -> Finding:
    """Ray keeps arguments and results there; ours are a few bytes, but its workers begin slower without room."""
    if not _SHARED.exists():
        return ok("shared memory", "this system has no /dev/shm; Ray uses files")
    size = shutil.disk_usage(_SHARED).total
    found = f"{in_words(size)} in {_SHARED}"
    if size < _LITTLE_SHARED and config.engine == "ray":
        cure = "Ray will use files in its folder of temporary files: start the container with --shm-size=2g"
        return note("shared memory", found, cure)
    return ok("shared memory", found)


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < _FEW_FILES:
        return note("open files", f"at most {soft:,}", f"a Ray head wants more: ulimit -n {min(65536, hard)}")
    return ok("open files", f"at most {soft:,}")
