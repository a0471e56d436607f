"""The Dockerfile: what it reads and pins; and its own steps, run in an empty environment."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from tests.cluster.kube import ROOT, pods

FILE = ROOT / "cluster" / "Dockerfile"
IGNORE = FILE.with_name("Dockerfile.dockerignore")
NOBODY = 65534
SMALL = {
    "graph": {"source": "digits"},
    "rings": {"hops": 1, "per_ring": 4, "beyond": 8},
    "model": {"layers": 1, "width": 16},
    "train": {"epochs": 1, "batch_size": 600},
    "evaluate": {"random_splits": 1, "probe_epochs": 5},
}


@dataclass(frozen=True)
class Step:
    """An instruction of the Dockerfile: its flags, such as --mount, and the rest."""

    kind: str
    flags: tuple[str, ...]
    rest: str

    def mounts(self):
        """What it reads, as values of --mount."""
        told = (flag.removeprefix("--mount=") for flag in self.flags if flag.startswith("--mount="))
        return [dict(pair.split("=", 1) for pair in mount.split(",")) for mount in told]


def steps():
    """The instructions of the Dockerfile, in order."""
    text = "\n".join(line for line in FILE.read_text().splitlines() if not line.startswith("#"))
    found = []
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip():
            kind, rest = line.split(maxsplit=1)
            flags = re.match(r"(?:--\S+\s+)*", rest)[0]
            found.append(Step(kind, tuple(flags.split()), rest[len(flags) :].strip()))
    return found


def sent(path):
    """Whether a file of the checkout is sent to the builder."""
    rules = [line for line in IGNORE.read_text().splitlines() if line and not line.startswith("#")]
    kept = [rule[1:] for rule in rules if rule.startswith("!")]
    assert rules[0] == "*"
    assert not any(fnmatch(path, rule) for rule in rules[1:] if not rule.startswith("!"))
    return any(path == rule or path.startswith(f"{rule}/") for rule in kept)


def read():
    """Files of the checkout that the steps read, with what they are called in the image."""
    found = []
    for step in steps():
        if step.kind == "COPY" and not any(flag.startswith("--from") for flag in step.flags):
            *sources, target = step.rest.split()
            found += [(source, source if target == "./" else target) for source in sources]
        found += [
            (mount["source"], mount["target"])
            for mount in step.mounts()
            if mount["type"] == "bind" and "from" not in mount
        ]
    return found


def test_what_the_steps_read_is_there_and_is_sent_and_nothing_else_is():
    names = {source for source, _ in read()}
    assert names == {"constraints.txt", "pyproject.toml", "README.md", "LICENSE", "gscl_scale"}
    assert all((ROOT / name).exists() and sent(name) for name in names)
    assert not any(
        sent(name) for name in (".git/config", "tests/conftest.py", ".venv/bin/python", "runs/a", "docs/ray.md")
    )


def test_all_is_installed_under_the_constraints_torch_first():
    installed = [step.rest for step in steps() if step.kind == "RUN" and "pip install" in step.rest]
    assert all(
        "-c constraints.txt" in one or "--no-index --no-deps" in one or "--no-deps --no-index" in one
        for one in installed
    )
    assert installed[1].split()[-1] == "torch"
    assert "https://" not in FILE.read_text()
    assert "//" not in "".join(step.rest for step in steps())


def test_it_runs_as_the_user_that_the_manifests_name():
    [user] = [step.rest for step in steps() if step.kind == "USER"]
    assert f"--uid {user} " in next(step.rest for step in steps() if "useradd" in step.rest)
    named = {pod.securityContext.runAsUser for _, pod in pods()}
    assert named == {int(user)}
    assert [step.kind for step in steps()][-1] == "CMD"
    assert "ENTRYPOINT" not in [step.kind for step in steps()]


def unprivileged():
    """How a process is started as an ordinary user; as we are, if that is one."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}


def base_python():
    """A Python of this version that an ordinary user can run: that of root's home is not one."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys._base_executable, shutil.which(name, path="/usr/local/bin:/usr/bin")):
        with contextlib.suppress(PermissionError, TypeError):
            if not subprocess.run([candidate, "-c", "import ensurepip, ssl"], check=False, **unprivileged()).returncode:
                return candidate
    return pytest.fail(f"no {name} that an ordinary user can run; install one in /usr/local or /usr")


class Image:
    """An empty environment in which the steps of the Dockerfile have been run."""

    def __init__(self, folder):
        self.folder, self.work = folder, folder / "src"
        self.work.mkdir()
        subprocess.run([base_python(), "-m", "venv", folder / "python"], check=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        self.env = kept | {"PATH": f"{folder / 'python' / 'bin'}:/usr/local/bin:/usr/bin:/bin"}
        for source, target in read():
            place = self.work / target
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, place)
        for step in steps():
            if step.kind in ("ENV", "ARG"):
                self.env |= {name: value for name, _, value in (pair.partition("=") for pair in shlex.split(step.rest))}
            if step.kind == "RUN" and "useradd" not in step.rest:
                subprocess.run(["sh", "-ec", step.rest], cwd=self.work, env=self.env, check=True)

    def python(self, *words):
        return subprocess.run(
            ["python", *words], cwd=self.folder, env=self.env, capture_output=True, text=True, check=True
        ).stdout

    def as_user(self, command, home):
        """Run a command as an ordinary user."""
        return subprocess.run(
            command, cwd=home, env=self.env | {"HOME": str(home)}, capture_output=True, text=True, check=False,
            **unprivileged(),
        )  # fmt: skip


@pytest.fixture(scope="module")
def image():
    folder = Path(tempfile.mkdtemp(prefix="image-"))
    folder.chmod(0o755)
    try:
        yield Image(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def home(image):
    place = image.folder / "home"
    place.mkdir(exist_ok=True)
    if os.getuid() == 0:
        os.chown(place, NOBODY, NOBODY)
    return place


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_package_has_the_version_of_the_constraints(image):
    pinned = {
        re.sub(r"[-_.]+", "-", name).lower(): version
        for name, version in re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    }
    installed = {
        re.sub(r"[-_.]+", "-", name).lower(): version
        for name, version in re.findall(
            r"^([\w.-]+)==([^+\s]+)", image.python("-m", "pip", "freeze", "--all"), re.MULTILINE
        )
    }
    others = {name: version for name, version in installed.items() if pinned.get(name) != version}
    assert others.keys() <= {"pip"}
    assert {"ray", "torch", "numba", "pyarrow"} <= installed.keys()
    assert "No broken requirements" in image.python("-m", "pip", "check")
    place = image.python("-c", "import gscl_scale; print(gscl_scale.__file__)").strip()
    assert place.startswith(f"{image.folder}/python/lib")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_ordinary_user_runs_it(image, home):
    [command] = [step.rest for step in steps() if step.kind == "CMD"]
    shown = image.as_user(yaml.safe_load(command), home)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("Usage: gscl-scale")
    (home / "config.yaml").write_text(yaml.safe_dump(SMALL))
    ran = image.as_user(["gscl-scale", "run", "--config", "config.yaml", "--run", "run"], home)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    written = home / "run" / "embeddings" / "embeddings.parquet"
    assert written.stat().st_uid == (NOBODY if os.getuid() == 0 else os.getuid())
    assert "--autoscaling-config" in image.as_user(["ray", "start", "--help"], home).stdout
