"""What the system knows of the mapped files of this process (Linux)."""

import gc
from pathlib import Path


def read_at_random(folder: Path) -> dict[str, bool]:
    """Names of the mapped files in a folder, and whether the system was told that they are read at random."""
    found, name = {}, ""
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if "-" in words[0]:
            name = words[5].removeprefix(f"{folder}/") if len(words) > 5 and words[5].startswith(f"{folder}/") else ""
        elif words[0] == "VmFlags:" and name:
            found[name] = "rr" in words[1:]
    return found


def num_mapped(folder: Path) -> int:
    """How many mappings this process has of files in a folder."""
    gc.collect()
    return Path("/proc/self/maps").read_text(encoding="utf-8").count(f" {folder}/")
