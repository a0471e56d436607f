"""What each verb imports: a command that trains nothing must not wait for torch."""

import json
import subprocess
import sys

from tests.commands import cli
from tests.golden.adapters import verbs
from tests.neighbors.folders import drawn, write_run
from tests.test_cli import write_tables

HEAVY = {"numba", "torch", "ray", "pandas", "sklearn", "matplotlib"}
RUNNER = """
import json, shlex, sys
from gscl_scale.__main__ import main

for line in sys.argv.pop().splitlines():
    sys.argv[1:] = shlex.split(line)
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, line
print(json.dumps(list(sys.modules)), file=sys.stderr)
"""


def imported(*commands, cwd):
    """The heavy packages that a process has imported after these commands, one after the other."""
    command = [sys.executable, "-c", RUNNER, "\n".join(commands)]
    ended = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return HEAVY & set(json.loads(ended.stderr.splitlines()[-1]))


def test_help_status_and_config_import_no_heavy_package(tmp_path):
    write_tables(tmp_path)
    cli("ingest", "--config", "quick.yaml", cwd=tmp_path)
    helps = [f"{verb} --help" for verb in ["", "bench", "registry", *verbs()]]
    assert not imported(*helps, "config", "config --schema", "status --run runs/quick", cwd=tmp_path)


def test_stages_before_the_training_and_neighbors_import_neither_torch_nor_ray_nor_matplotlib(tmp_path):
    write_tables(tmp_path)
    write_run(tmp_path / "embedded", drawn(20))
    stages = [f"{verb} --config quick.yaml --set runtime.engine=local" for verb in ("ingest", "precompute")]
    found = imported(*stages, "neighbors embedded --id node-7", cwd=tmp_path)
    assert not found & {"torch", "ray", "matplotlib"}
    assert "numba" in found  # a heavy package that is imported is seen
