"""`doctor --warm` compiles what any other command would."""

import importlib
import json
import os
import pkgutil
import subprocess
import sys

import pytest

import gscl_scale
from gscl_scale.cli.doctor.warm import compile_kernels
from gscl_scale.kernel import Kernel

NOT_COMPILED = ("gscl_scale.bench.",)  # nobody but a developer waits for these


def kernels():
    """Every kernel that is code of its own, by its name."""
    for found in pkgutil.walk_packages(gscl_scale.__path__, "gscl_scale."):
        if found.name.startswith(NOT_COMPILED) or found.name.endswith("__main__") or ".cluster" in found.name:
            continue
        for value in vars(importlib.import_module(found.name)).values():
            if isinstance(value, Kernel) and value._options.get("inline") != "always":
                yield f"{value.py_func.__module__}.{value.py_func.__name__}", value


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_kernel_is_compiled_and_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert compile_kernels().state == "ok"
    assert not {name for name, one in kernels() if not one.dispatcher.signatures}
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_after_it_a_first_run_compiles_nothing(tmp_path):
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-m", "gscl_scale", "doctor", "--warm"], cwd=tmp_path, env=env, check=True)
    run = ["run", "--set", "graph.source=digits", "--set", "train.epochs=1", "--run", "digits"]
    record = [sys.executable, "-m", "gscl_scale.bench.compilation", "record.json"]
    told = subprocess.run([*record, *run], cwd=tmp_path, env=env, check=True, capture_output=True, text=True)
    assert json.loads((tmp_path / "record.json").read_text())["names"] == []
    assert "Compiling" not in told.stderr
