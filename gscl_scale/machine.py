"""What this machine has left, memory and disk; its cores; and how this process takes memory."""

import contextlib
import ctypes
import math
import os
import platform
import resource
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of mallopt(3)
_DONTNEED = 4  # of madvise(2)
_UNLIMITED = 1 << 60  # groups without a limit report a number near 2^63


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory is short; torch tells it in words of its own, of a GPU too."""
    told = type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and told)


def available_memory(root: Path = _ROOT) -> int:
    """Bytes that this process may still take: of the machine, of each control group that limits it, and by ulimit."""
    return max(0, min(_machine_memory(root), *_group_memory(root), *_own_limits(root), _UNLIMITED))


def whole_memory() -> int:
    """Bytes of memory that this machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def free_disk(folder: Path) -> int:
    """Bytes free where `folder` is, or will be made."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def peak_memory() -> int:
    """Largest resident memory of this process so far, in bytes, files that it maps included."""
    of_process = _of_process("VmHWM")  # ru_maxrss of a new process begins with its parent's on Linux
    return of_process if of_process is not None else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def hand_back_memory() -> None:
    """Hand freed memory back to the system (glibc keeps some of it for later)."""
    if sys.platform.startswith("linux") and hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)


def start_peak() -> None:
    """Hand freed memory back to the system, and let `peak_memory` begin anew where the system can (Linux)."""
    hand_back_memory()
    with contextlib.suppress(OSError):
        (_ROOT / "proc/self/clear_refs").write_text("5", encoding="ascii")


def allocated_memory() -> int:
    """Resident memory of this process now, in bytes, without the files that it maps; its peak where that is unknown."""
    of_process = _of_process("RssAnon")
    return of_process if of_process is not None else peak_memory()


def usable_cores() -> list[int]:
    """Numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def num_cores(root: Path = _ROOT) -> int:
    """How many cores this process can keep busy: those that it may use, within the time that its container is given."""
    return math.ceil(min(len(usable_cores()), *_group_cores(root), math.inf))


def processor_name() -> str:
    """The processor as the machine calls it."""
    for line in _lines(_ROOT / "proc/cpuinfo"):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _machine_memory(root: Path) -> int:
    for line in _lines(root / "proc/meminfo"):
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) << 10
    return whole_memory()


def _group_memory(root: Path) -> Iterator[int]:
    """What is left of the limit of each control group, v1 or v2, that this process is in; file cache counts as free."""
    for version, folder in _groups(root, "memory"):
        limit, used, cache = (
            ("memory.max", "memory.current", "inactive_file")
            if version == 2
            else ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        )
        if (most := _first_word(folder / limit)).isdigit() and int(most) < _UNLIMITED:
            yield int(most) - int(_first_word(folder / used) or 0) + _statistic(folder / "memory.stat", cache)


def _group_cores(root: Path) -> Iterator[float]:
    """The time that each control group of this process is given, in cores."""
    for version, folder in _groups(root, "cpu"):
        names = ("cpu.max",) if version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        words = [word for name in names for line in _lines(folder / name) for word in line.split()]
        if len(words) == 2 and all(word.isdigit() for word in words):  # "max", or -1: there is no limit
            yield int(words[0]) / int(words[1])


def _groups(root: Path, controller: str) -> Iterator[tuple[int, Path]]:
    """Version and folder of each control group that this process is in, with those above it, whose limits hold too.

    In a container only the last parts of the path are seen.
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
    """What is left of the limits that the process was started with: ulimit -v and -d."""
    for kind, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        limit = resource.getrlimit(kind)[0]
        if limit not in (resource.RLIM_INFINITY, -1) and limit < _UNLIMITED:
            yield limit - (_of_process(name, root) or 0)


def _of_process(name: str, root: Path = _ROOT) -> int | None:
    for line in _lines(root / "proc/self/status"):
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
    """Let this process keep large blocks that it frees, for its next ones: steps of training take the same ones again.

    By default glibc hands each back to the system and has it zeroed page by page when it is taken again, which was half
    the time of a step on the CPU. Elsewhere than on glibc nothing changes.
    """
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_MMAP_THRESHOLD, 1 << 30)
        library.mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)
        library.mallopt(_ARENA_MAX, 1)  # those of other threads than the first are too small to keep large blocks


def let_go_of_files(most: int, folder: Path) -> bool:
    """Where this process holds more than `most` bytes of mapped files, give back the pages of those in a folder.

    They stay in the cache of the system, and come back page by page when they are read again. Without this a process
    that reads here and there in large files would count as one that needs all of them, and may be killed for that.
    """
    held = _of_process("RssFile")
    if held is None or held <= most:
        return False
    library, inside = ctypes.CDLL(None), f"{folder.resolve()}/"
    for line in _lines(_ROOT / "proc/self/maps"):
        span, rights, *rest = line.split(maxsplit=5)
        if rights.startswith("r--") and rest[-1].startswith(inside):
            first, end = (int(bound, 16) for bound in span.split("-"))
            library.madvise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), _DONTNEED)
    return True
