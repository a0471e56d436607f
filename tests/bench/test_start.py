"""`bench start`: what it runs, and what it makes of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gscl_scale.bench import start
from gscl_scale.bench.start import Spent, bench_start
from gscl_scale.errors import RunError
from gscl_scale.runtime.console import Console
from tests.bench.conftest import quiet_bench, written_by

KERNEL = """
from gscl_scale.kernels.kernel import kernel
@kernel
def inner(x):
    return x + 1
@kernel
def outer(x):
    return inner(x) + 1
outer(1)
"""


def test_the_page_has_the_bound_beside_each_figure_and_each_measurement_prints_a_line(tmp_path, monkeypatch, capsys):
    ran = []

    def spend(program, folder, environment):
        ran.append((" ".join(program[3:]), environment.get("GOMP_SPINCOUNT"), len(busy)))
        if "compilation" in program[2]:
            folder.joinpath(program[3]).write_text(json.dumps({"kernels": 3, "seconds": 1.5}))
        return Spent(wall_s=4.0 * (1 + len(busy)), cpu_s=2.0)

    class Busy:
        def __init__(self, cores):
            self.cores = cores

        def __enter__(self):
            busy.extend(self.cores)

        def __exit__(self, *_):
            busy.clear()

    busy = []
    monkeypatch.setattr(start, "_run", spend)
    monkeypatch.setattr(start, "_busy", Busy)
    monkeypatch.chdir(tmp_path)
    bench = quiet_bench("start", Path("results"), turns=2, spinning=True)
    bench.core_ids, bench.console = [0], Console()
    page = bench_start(bench)
    lines = capsys.readouterr().err.splitlines()
    for line in (
        "a first run, with an empty cache: 4.0 s, 3 kernels compiled in 1.5 s",
        "doctor --warm: 4.0 s",
        "14 measurements, 2 turns",
        "1 of 14, --help: 4.00 s",
        "14 of 14, doctor: 4.00 s",
    ):
        assert f"bench start: {line}" in lines
    rows = written_by(bench, page)["rows"]
    for command, bound in start._BOUNDS.items():
        assert f"| `gscl-scale {command}` | 4.00 s | 2.00 s | {bound:.1f} s |" in page
        assert sum(one == command for one, *_ in ran) == 2
    assert "| a first run, with an empty cache | 3 | 1.5 s | 12 s | 4.0 s |" in page
    assert "| wait | 4.0 s | 8.0 s | 2.00 | 2.2 |" in page
    assert "| spin | 4.0 s | 8.0 s | 2.00 | 2.2 |" in page
    new = [one[1:] for one in ran if "new-" in one[0]]
    assert new == 2 * [(None, 0), (None, 1), ("300000", 0), ("300000", 1)]
    assert {"bound_s", "bound"} & {key for row in rows for key in row}


def test_a_command_that_fails_is_no_measurement_and_a_refused_setting_is_one(tmp_path):
    with pytest.raises(RunError, match="exit code 1: out of luck"):
        start._run([sys.executable, "-c", "print('out of luck'); raise SystemExit(1)"], tmp_path, {})
    spent = start._run([sys.executable, "-c", "raise SystemExit(2)", "bad.key=1"], tmp_path, {})
    assert spent.wall_s > 0
    with pytest.raises(RunError, match="exit code 0"):
        start._run([sys.executable, "-c", "", "bad.key=1"], tmp_path, {})


def test_busy_loops_end_with_the_block(monkeypatch):
    begun, popen = [], subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda command: begun.append(popen(command)) or begun[-1])
    with start._busy([0, 0]):
        assert [loop.poll() for loop in begun] == [None, None]
    assert [loop.poll() for loop in begun] == [-9, -9]


def test_what_numba_compiles_is_recorded_once_and_a_kernel_within_another_is_counted(tmp_path):
    (tmp_path / "kernels.py").write_text(KERNEL)
    program = (
        "import pathlib, sys; from gscl_scale.bench.compilation import record; "
        "record(pathlib.Path(sys.argv[1])); import kernels"
    )
    found = []
    for _ in range(2):
        subprocess.run([sys.executable, "-c", program, "record.json"], cwd=tmp_path, check=True)
        found.append(json.loads((tmp_path / "record.json").read_text()))
    assert sorted(found[0]["names"]) == ["inner", "outer"]
    assert found[0]["seconds"] > 0
    assert (found[1]["kernels"], found[1]["seconds"]) == (0, 0.0)
