"""What is installed with the package: dependencies, their lowest versions, extras, and files beside the modules."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from gscl_scale.config.config import Config
from gscl_scale.errors import UserError
from gscl_scale.runtime import extras
from gscl_scale.runtime.runner import start_runner
from gscl_scale.train.tensorboard import scalar_writer

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
BASE = [Requirement(line) for line in PROJECT["dependencies"]]
NAMES = {"yaml": "pyyaml", "sklearn": "scikit-learn", "pydantic_core": "pydantic", "llvmlite": "numba"}  # of imports
OTHERS = {  # imports that the base install lacks, by the extra that brings them
    "ray": "ray", "grpc": "ray", "aiohttp": "ray", "optuna": "tune", "faiss": "index", "obstore": "cloud",
    "pandas": "ogb", "tensorboardx": "tensorboard", "torch-sparse": "torch-sparse", "igraph": "dev", "networkit": "dev",
    "triton": "dev", "websocket": "dev",
}  # fmt: skip
OF_THE_USER = {"ipython"}  # looked at only where it runs


def imports(path):
    """(top name, whether at the top of the module) of everything that a module imports from others."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            top = name.partition(".")[0]
            if top and top not in sys.stdlib_module_names and top != "gscl_scale":
                yield canonicalize_name(NAMES.get(top, top)), node in tree.body


@pytest.mark.parametrize("path", sorted((ROOT / "gscl_scale").rglob("*.py")), ids=str)
def test_every_import_is_of_the_base_install_or_of_an_extra(path):
    base = {canonicalize_name(need.name) for need in BASE}
    for name, at_top in imports(path):
        if name not in base:
            assert name in OF_THE_USER or OTHERS[name] in PROJECT["optional-dependencies"], f"{path} imports {name}"
            room = path.relative_to(ROOT / "gscl_scale").as_posix()
            own = room.startswith(("runtime/cluster/", "studies/tune/", "bench/", "model/fused/triton_kernels/"))
            assert own or not at_top, f"{path}: {name} is not there in a base install; import it where it is used"


def test_what_the_type_checker_is_to_ignore_has_a_code_and_a_reason():
    wanted = re.compile(r"# type: ignore\[[\w-]+\]  # \w")
    for path in (ROOT / "gscl_scale").rglob("*.py"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            assert "# type: ignore" not in line or wanted.search(line), f"{path}:{number}: {line.strip()}"


def test_lowest_versions_are_those_of_the_project():
    pins = dict(re.findall(r"^([\w-]+)==([\d.]+)$", (ROOT / "lowest.txt").read_text(), re.MULTILINE))
    assert {name: Version(pin) for name, pin in pins.items()} == {
        need.name: Version(str(need.specifier).removeprefix(">=")) for need in BASE
    }


def test_every_file_beside_the_modules_is_package_data():
    patterns = PYPROJECT["tool"]["setuptools"]["package-data"]["gscl_scale"]
    listed = subprocess.run(["git", "ls-files", "gscl_scale"], cwd=ROOT, capture_output=True, text=True, check=True)
    others = [name.removeprefix("gscl_scale/") for name in listed.stdout.split() if not name.endswith(".py")]
    assert len(others) > 3
    assert [name for name in others if not any(fnmatch(name, pattern) for pattern in patterns)] == []


def test_the_extras_of_developers_are_all():
    [ours] = [Requirement(line) for line in PROJECT["optional-dependencies"]["dev"] if line.startswith("gscl-scale[")]
    assert ours.extras == set(PROJECT["optional-dependencies"]) - {"dev", "docs", "torch-sparse"}


@pytest.mark.parametrize(
    ("extra", "work"),
    [
        (
            "ray",
            lambda folder: start_runner(Config.parse({"runtime": {"engine": "ray"}}).runtime.for_tasks()).__enter__(),
        ),
        ("tensorboard", lambda folder: scalar_writer(folder, 0).__enter__()),
    ],
)
def test_an_extra_that_is_missing_is_named(extra, work, monkeypatch, tmp_path):
    monkeypatch.setattr(extras, "find_spec", lambda package: None)
    with pytest.raises(
        UserError, match=rf"runtime\.\w+(=ray)? needs the package \w+; pip install 'gscl-scale\[{extra}\]'"
    ):
        work(tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_wheel_and_sdist_hold_what_runs(tmp_path):
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path, ROOT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel], [sdist] = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "gscl_scale").rglob("*") if path.is_file()}
    assert {name for name in sources if "__pycache__" not in name} <= names
    assert not [name for name in names if not name.startswith("gscl_scale")]
    assert wheel.name.split("-")[1] == sdist.name.removesuffix(".tar.gz").split("-")[1]
