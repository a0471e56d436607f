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
    tiles = ["rings.engine=sketch", "rings.hops=3", "runtime.precompute_memory_gb=0.1", "runtime.embed_tiles=true"]
    for name, settings in (("whole", []), ("tiles", tiles)):
        command = ["run", *(f"--set={one}" for one in ("graph.source=digits", "train.epochs=1", *settings))]
        record = [sys.executable, "-m", "gscl_scale.bench.compilation", f"{name}.json", *command, "--run", name]
        told = subprocess.run(record, cwd=tmp_path, env=env, check=True, capture_output=True, text=True)
        assert json.loads((tmp_path / f"{name}.json").read_text())["names"] == []
        assert "Compiling" not in told.stderr
