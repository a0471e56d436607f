"""Readings of memory and disk, from files as Linux writes them."""

import shutil
import sys

import numpy as np
import pyarrow as pa
import pytest
import torch

from gscl_scale import machine
from gscl_scale.io.arrow import map_array, write_arrow
from tests.pages import read_at_random

GIB = 1 << 30


def fake(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = {"proc/meminfo": f"MemTotal: {24 << 20} kB\nMemFree: 1 kB\nMemAvailable: {20 << 20} kB\n"}
V2 = {
    "proc/self/cgroup": "0::/outer/inner\n",
    "sys/fs/cgroup/outer/inner/memory.max": "max\n",
    "sys/fs/cgroup/outer/memory.max": f"{8 * GIB}\n",
    "sys/fs/cgroup/outer/memory.current": f"{5 * GIB}\n",
    "sys/fs/cgroup/outer/memory.stat": f"anon 7\ninactive_file {GIB}\nactive_file {GIB}\n",
}
V1 = {
    "proc/self/cgroup": "5:cpu,cpuacct:/a\n4:memory:/a\n1:name=systemd:/a\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/a/memory.limit_in_bytes": f"{4 * GIB}\n",
    "sys/fs/cgroup/memory/a/memory.usage_in_bytes": f"{3 * GIB}\n",
    "sys/fs/cgroup/memory/a/memory.stat": "inactive_file 5\nactive_file 5\n"
    f"total_inactive_file {GIB // 2}\ntotal_active_file {GIB // 2}\n",
}


@pytest.mark.parametrize(
    ("files", "gib"),
    [
        (MEMINFO, 20),
        (MEMINFO | V2, 5),
        (MEMINFO | V1, 2),
        (MEMINFO | V2 | {"proc/self/cgroup": "0::/seen/from/outside\n", "sys/fs/cgroup/memory.max": f"{GIB}"}, 1),
        (MEMINFO | V2 | {"sys/fs/cgroup/outer/memory.max": f"{99 * GIB}\n"}, 20),
        (MEMINFO | V2 | {"sys/fs/cgroup/outer/memory.current": f"{11 * GIB}\n"}, 0),
    ],
    ids=["no groups", "v2 ancestor", "v1", "container", "wide limit", "spent"],
)
def test_the_tightest_limit_counts(tmp_path, files, gib):
    assert machine.available_memory(fake(tmp_path, files)) == gib * GIB


CPU_V2 = {"proc/self/cgroup": "0::/outer/inner\n", "sys/fs/cgroup/outer/inner/cpu.max": "max 100000\n"}
CPU_V1 = {
    "proc/self/cgroup": "5:cpu,cpuacct:/a\n",
    "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
    "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "250000\n",
    "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n",
}


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8),
        (CPU_V2, 8),
        (CPU_V2 | {"sys/fs/cgroup/outer/cpu.max": "150000 100000\n"}, 2),
        (CPU_V2 | {"sys/fs/cgroup/outer/cpu.max": "20000 100000\n"}, 1),
        (CPU_V1, 3),
        (CPU_V1 | {"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "-1\n"}, 8),
    ],
    ids=["no groups", "no limit", "v2 ancestor", "part of a core", "v1", "v1 without limit"],
)
def test_the_time_that_a_container_is_given_limits_its_cores(tmp_path, monkeypatch, files, cores):
    monkeypatch.setattr(machine, "usable_cores", lambda: list(range(8)))
    assert machine.num_cores(fake(tmp_path, files)) == cores


def test_memory_is_read_of_this_machine_and_of_one_without_proc(tmp_path):
    assert machine.available_memory() > 0
    assert machine.available_memory(tmp_path) > 0


def test_the_disk_of_a_folder_that_is_not_made_yet_is_that_of_its_parent(tmp_path, monkeypatch):
    asked = []
    usage = shutil.disk_usage
    monkeypatch.setattr(shutil, "disk_usage", lambda path: asked.append(path) or usage(path))
    assert machine.free_disk(tmp_path / "a" / "b") > 0
    assert asked == [tmp_path]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells what of a file is in memory")
def test_pages_of_the_files_in_a_folder_are_given_back_and_read_again(tmp_path):
    numbers, arrays = np.arange(4 << 20), []
    for name in ("inside", "beside"):
        (tmp_path / name).mkdir()
        write_arrow(tmp_path / name / "numbers.arrow", {"number": pa.array(numbers)})
        arrays.append(map_array(tmp_path / name / "numbers.arrow", "number"))
    own = numbers.copy()
    assert all((array == numbers).all() for array in arrays)
    held = machine._status_bytes("RssFile")
    assert not machine.release_mapped_pages(held + numbers.nbytes, tmp_path / "inside")
    assert machine.release_mapped_pages(held // 2, tmp_path / "inside")
    given_back = held - machine._status_bytes("RssFile")
    assert 0.9 * numbers.nbytes < given_back < 1.5 * numbers.nbytes
    assert all((array == own).all() for array in [*arrays, numbers])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells how files are read")
def test_files_of_one_folder_are_read_page_by_page(tmp_path):
    arrays = []
    for name in ("inside", "beside"):
        (tmp_path / name).mkdir()
        write_arrow(tmp_path / name / "numbers.arrow", {"number": pa.array(np.arange(1 << 16))})
        arrays.append(map_array(tmp_path / name / "numbers.arrow", "number"))
    machine.expect_random_reads(tmp_path / "inside")
    assert read_at_random(tmp_path) == {"inside/numbers.arrow": True, "beside/numbers.arrow": False}
    assert all((array == np.arange(1 << 16)).all() for array in arrays)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux lets a peak begin anew")
def test_the_peak_of_memory_begins_anew():
    block = np.ones(1 << 26)  # 512 MiB
    before = machine.peak_memory()
    del block
    machine.reset_peak_memory()
    assert machine.peak_memory() < before - (1 << 28)


@pytest.mark.parametrize(
    ("error", "short"),
    [
        (MemoryError(), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you asked for 8 bytes"), True),
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (RuntimeError("something else"), False),
        (ValueError("can't allocate memory"), False),
    ],
)
def test_a_lack_of_memory_is_known_in_the_words_of_torch_too(error, short):
    assert machine.is_lack_of_memory(error) == short
