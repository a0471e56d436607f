"""What each verb imports: a command that trains nothing must not wait for torch."""

import json
import subprocess
import sys

import pytest

from tests.commands import cli
from tests.golden.adapters import verbs
from tests.neighbors.folders import drawn, write_run
from tests.test_cli import write_tables

HEAVY = {"numba", "torch", "torch._dynamo", "ray", "pandas", "sklearn", "matplotlib"}
RUNNER = """
import json, shlex, sys
from gscl_scale.__main__ import main

expected = int(sys.argv.pop())
for line in sys.argv.pop().splitlines():
    sys.argv[1:] = shlex.split(line)
    try:
        main()
    except SystemExit as ended:
        assert (ended.code or 0) == expected, line
print(json.dumps(list(sys.modules)), file=sys.stderr)
"""


def imported(*commands, cwd, code=0):
    """The heavy packages that a process has imported after these commands, which all end with this exit code."""
    command = [sys.executable, "-c", RUNNER, "\n".join(commands), str(code)]
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


@pytest.mark.slow
def test_stages_of_a_graph_that_was_read_do_not_wait_for_pandas(tmp_path):
    write_tables(tmp_path)
    cli("ingest", "--config", "quick.yaml", cwd=tmp_path)
    stages = [f"{verb} --config quick.yaml --set runtime.engine=local" for verb in ("precompute", "train", "embed")]
    found = imported(*stages, cwd=tmp_path)
    assert "torch" in found
    assert not found & {"pandas", "ray", "sklearn", "matplotlib"}


def test_a_refused_setting_imports_no_heavy_package(tmp_path):
    taking = "run ingest precompute train embed evaluate report stats compare tune doctor"
    refused = [f"{verb} --set bad.key=1" for verb in taking.split()]
    assert not imported(*refused, cwd=tmp_path, code=2) & {*HEAVY, "scipy", "pyarrow"}
    assert not list(tmp_path.iterdir())


def test_nothing_waits_for_the_compiler_of_torch_and_a_finished_run_not_for_numba_torch_or_plots(tmp_path):
    write_tables(tmp_path)
    method = "--run other --set train.objective=bgrl --set train.epochs=1"  # with decoupled weight decay
    found = imported("run --config quick.yaml", f"train --config quick.yaml {method}", cwd=tmp_path)
    assert "sklearn" in found
    assert "torch._dynamo" not in found
    commands = ["run --config quick.yaml", "run --run runs/quick", "precompute --run runs/quick"]
    assert not imported(*commands, cwd=tmp_path) & HEAVY


def test_neighbors_and_doctor_do_not_import_what_they_do_not_use(tmp_path):
    write_run(tmp_path / "embedded", drawn(20))
    assert not imported("neighbors embedded --id node-7", cwd=tmp_path) & HEAVY
    assert not imported("doctor", cwd=tmp_path) & {"ray", "pandas", "sklearn", "matplotlib"}
