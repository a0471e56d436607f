"""Free memory, free disk and cores of this machine, and the memory of this process."""

import contextlib
import ctypes
import math
import os
import platform
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of mallopt(3)
_NORMAL, _RANDOM, _DONTNEED = 0, 1, 4  # of madvise(2)
_UNLIMITED = 1 << 60  # groups without a limit report a number near 2^63


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory is short; torch raises RuntimeErrors, without importing it here."""
    of_torch = type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and of_torch)


def available_memory(root: Path = _ROOT) -> int:
    """Bytes that this process can still allocate, within the machine, its control groups and ulimit."""
    return max(0, min(_machine_memory(root), *_group_memory(root), *_own_limits(root), _UNLIMITED))


def total_memory() -> int:
    """Bytes of memory that this machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def free_disk(folder: Path) -> int:
    """Free bytes on the disk of a folder, which need not exist yet."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def peak_memory() -> int:
    """Peak resident memory of this process in bytes, including mapped files."""
    of_process = _status_bytes("VmHWM")  # on Linux ru_maxrss of a new process starts at that of its parent
    return of_process if of_process is not None else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def cpu_seconds() -> float:
    """Seconds that this process and its ended children have computed, on all cores together."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def trim_heap() -> None:
    """Return freed memory to the system (glibc keeps some of it)."""
    if sys.platform.startswith("linux") and hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)


def reset_peak_memory() -> None:
    """Return freed memory to the system, and reset `peak_memory` where the system can (Linux)."""
    trim_heap()
    with contextlib.suppress(OSError):
        (_ROOT / "proc/self/clear_refs").write_text("5", encoding="ascii")


def allocated_memory() -> int:
    """Resident memory of this process in bytes, without mapped files; its peak where that is unknown."""
    of_process = _status_bytes("RssAnon")
    return of_process if of_process is not None else peak_memory()


def memory_of(process: int) -> tuple[int, int]:
    """Peak resident memory of another process, and what it allocates now, in bytes; 0 once it has ended (Linux)."""
    found = (_status_bytes(name, process=str(process)) for name in ("VmHWM", "RssAnon"))
    peak, allocated = (0 if value is None else value for value in found)
    return peak, allocated


def usable_cores() -> list[int]:
    """Numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def num_cores(root: Path = _ROOT) -> int:
    """Number of cores that this process can keep busy, within the CPU time of its container."""
    return math.ceil(min(len(usable_cores()), *_group_cores(root), math.inf))


def processor_name() -> str:
    """Name of the processor."""
    for line in _lines(_ROOT / "proc/cpuinfo"):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _machine_memory(root: Path) -> int:
    for line in _lines(root / "proc/meminfo"):
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) << 10
    return total_memory()


def _group_memory(root: Path) -> Iterator[int]:
    """Free bytes in each control group (v1 or v2) of this process; file cache counts as free."""
    for version, folder in _groups(root, "memory"):
        limit, used, total = (
            ("memory.max", "memory.current", "")
            if version == 2
            else ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
        )
        if (most := _first_word(folder / limit)).isdigit() and int(most) < _UNLIMITED:
            cache = (_statistic(folder / "memory.stat", f"{total}{kind}_file") for kind in ("inactive", "active"))
            yield int(most) - int(_first_word(folder / used) or 0) + sum(cache)


def _group_cores(root: Path) -> Iterator[float]:
    """CPU time of each control group of this process, in cores."""
    for version, folder in _groups(root, "cpu"):
        names = ("cpu.max",) if version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        words = [word for name in names for line in _lines(folder / name) for word in line.split()]
        if len(words) == 2 and all(word.isdigit() for word in words):  # "max", or -1: there is no limit
            yield int(words[0]) / int(words[1])


def _groups(root: Path, controller: str) -> Iterator[tuple[int, Path]]:
    """Version and folder of each control group of this process, and of those above it, whose limits apply too.

    A container sees only the last parts of the path.
    """
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers or controller in controllers.split(","):
            mount = root / "sys/fs/cgroup" / (controller if controllers else "")
            group = mount / path.strip("/")
            for folder in (group, *group.parents):
                yield (1 if controllers else 2), folder
                if folder == mount:
                    break


def _own_limits(root: Path) -> Iterator[int]:
    """Free bytes within the limits of ulimit -v and -d."""
    for kind, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        limit = resource.getrlimit(kind)[0]
        if limit not in (resource.RLIM_INFINITY, -1) and limit < _UNLIMITED:
            yield limit - (_status_bytes(name, root) or 0)


def _status_bytes(name: str, root: Path = _ROOT, process: str = "self") -> int | None:
    for line in _lines(root / f"proc/{process}/status"):
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    return None


def _statistic(path: Path, name: str) -> int:
    return next((int(line.split()[1]) for line in _lines(path) if line.split()[:1] == [name]), 0)


def _first_word(path: Path) -> str:
    return "".join(_lines(path)).strip()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def keep_freed_memory() -> None:
    """Let this process reuse large blocks that it frees, as each training step allocates the same ones.

    By default glibc returns each to the system, which zeroes it page by page for the next allocation; that was half the
    time of a step on the CPU. What was freed before is returned. Does nothing without glibc.
    """
    trim_heap()
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_MMAP_THRESHOLD, 1 << 30)
        library.mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)
        library.mallopt(_ARENA_MAX, 1)  # arenas of other threads are too small for large blocks


def release_mapped_pages(most: int, folder: Path) -> bool:
    """Release the pages of mapped files in a folder, if this process holds more than `most` bytes of mapped files.

    The pages stay in the cache of the system and return when they are read again. Without this, random reads in large
    files would count as memory of the process, which may be killed for that.
    """
    held = _status_bytes("RssFile")
    if held is None or held <= most:
        return False
    _advise(folder, _DONTNEED)
    return True


def expect_random_reads(folder: Path) -> None:
    """Let the system read only the pages that are asked for of the files in a folder that this process has mapped.

    Otherwise each page that is missing brings its surroundings, which are 8 MB on some disks.
    """
    _advise(folder, _RANDOM)


def expect_reads_in_order(folder: Path) -> None:
    """Let the system read ahead again."""
    _advise(folder, _NORMAL)


def _advise(folder: Path, advice: int) -> None:
    """Call madvise(2) for the mapped files in a folder, where the system tells which they are (Linux)."""
    inside = f"{folder.resolve()}/"
    for line in _lines(_ROOT / "proc/self/maps"):
        span, rights, *rest = line.split(maxsplit=5)
        if rights.startswith("r--") and rest[-1].startswith(inside):
            first, end = (int(bound, 16) for bound in span.split("-"))
            ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), advice)
