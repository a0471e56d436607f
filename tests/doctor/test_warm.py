"""`doctor --warm` compiles what a first run would."""

import json
import os
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_after_it_a_first_run_compiles_nothing_and_nothing_is_left_behind(tmp_path):
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "temporary")}
    (tmp_path / "temporary").mkdir()
    subprocess.run([sys.executable, "-m", "gscl_scale", "doctor", "--warm"], cwd=tmp_path, env=env, check=True)
    left = [path.name for path in (tmp_path / "temporary").iterdir()]
    assert not [name for name in left if not name.startswith("torch")]  # templates of torch-geometric, a cache of torch
    run = ["run", "--set", "graph.source=digits", "--set", "train.epochs=1", "--run", "digits"]
    record = [sys.executable, "-m", "gscl_scale.bench.compilation", "record.json"]
    told = subprocess.run([*record, *run], cwd=tmp_path, env=env, check=True, capture_output=True, text=True)
    assert json.loads((tmp_path / "record.json").read_text())["names"] == []
    assert "Compiling" not in told.stderr
