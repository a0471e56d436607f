"""A made-up key is added to a copy of the package, by its declaration and one use; all that names results follows."""

import contextlib
import gc
import json
import runpy
import shutil
import sys
from pathlib import Path

import pytest

import gscl_scale
from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError
from gscl_scale.io.json import read_json, write_json
from tests.forked import begin

DECLARED = {  # before these lines of config/sections.py
    "    batch_size: int = Field(1024": "    shine: Annotated[float, Key(revision=4, neutral=0.0)] = {default}\n",
    "    per_ring: Annotated": "    glow: Annotated[int, Key(revision=4, neutral=0)] = 0\n",
    "    accumulate: Annotated": '    idle: Annotated[int, Key("nothing", revision=4, neutral=0)] = 0\n',
}
USE = (
    "model.parameters(), lr=config.learning_rate",
    "model.parameters(), lr=config.learning_rate * (1 + config.shine)",
)
PACKAGE = Path(gscl_scale.__file__).parents[1]
NAMES = Path(__file__).with_name("names_of_results.py")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run of the package as it is, and the names of its results."""
    folder = tmp_path_factory.mktemp("old")
    return folder / "run", names(PACKAGE, folder / "run")


@pytest.fixture
def old(finished, tmp_path):
    return shutil.copytree(finished[0], tmp_path / "run"), finished[1]


def with_keys(folder: Path, default: float = 0.0) -> Path:
    """A copy of the package with the made-up keys."""
    package = folder / "gscl_scale"
    shutil.copytree(PACKAGE / "gscl_scale", package, ignore=shutil.ignore_patterns("__pycache__"))
    sections = package / "config/sections.py"
    text = sections.read_text()
    for line, declaration in DECLARED.items():
        assert text.count(line) == 1
        text = text.replace(line, declaration.format(default=default) + line)
    sections.write_text(text)
    changed = 0
    for path in package.rglob("*.py"):
        code = path.read_text()
        changed += code.count(USE[0])
        path.write_text(code.replace(*USE))
    assert changed == 1
    return folder


def names(package: Path, run: Path, *settings: str):
    """The names of results by a package, and whether it goes on with a run; in a process of its own."""
    printed, errors = run.with_name("printed"), run.with_name("errors")
    process = begin(print_names, package, [str(run), *settings], printed, errors=errors)
    process.join()
    assert process.exitcode == 0, errors.read_text()
    return json.loads(printed.read_text())


def print_names(package: Path, arguments: list[str], printed: Path):
    """Import this package, and no other of its name."""
    for module in [name for name in sys.modules if name.partition(".")[0] == "gscl_scale"]:
        vars(sys.modules.pop(module)).clear()
    gc.collect()  # torch has the operations of one package of a name, until that is gone
    sys.path.insert(0, str(package))
    sys.argv = [str(NAMES), *arguments]
    with printed.open("w") as output, contextlib.redirect_stdout(output):
        runpy.run_path(str(NAMES), run_name="__main__")
    assert Path(sys.modules["gscl_scale"].__file__).is_relative_to(package)


def test_a_made_up_key_with_its_neutral_value_leaves_everything_valid(old, tmp_path):
    run, before = old
    now = names(with_keys(tmp_path), run)
    assert now == before
    assert not now["refused"]
    assert not now["trained again"]


@pytest.mark.parametrize(
    ("setting", "refused", "differ"),
    [
        ("train.shine=0.5", "train.shine=0.0, but the config now says 0.5", {"cell", "night", "checkpoints", "search"}),
        (
            "rings.glow=2",
            "rings.glow=0, but the config now says 2",
            {"cell", "night", "samples", "shared samples", "search", "base"},
        ),
        ("train.idle=2", "", set()),
    ],
)
def test_a_made_up_key_with_another_value_changes_the_names_of_what_it_decides(old, tmp_path, setting, refused, differ):
    run, before = old
    now = names(with_keys(tmp_path), run, setting)
    assert refused in now["refused"]
    assert bool(now["refused"]) == bool(refused)
    assert {name for name in before if now[name] != before[name]} - {"refused"} == differ


def test_a_run_that_is_older_than_a_key_did_what_is_neutral_and_not_what_is_default_today(old, tmp_path):
    run, _ = old
    now = names(with_keys(tmp_path, default=0.5), run)
    assert "train.shine=0.0, but the config now says 0.5" in now["refused"]
    kept = names(with_keys(tmp_path / "again", default=0.5), run, "train.shine=0")
    assert not kept["refused"]


def test_a_renamed_key_is_refused_with_its_new_name_and_read_in_earlier_runs(old):
    with pytest.raises(ConfigError, match=r"loss\.weighing: this key is now called loss\.weighting; rename it"):
        Config.parse({"loss": {"weighing": "size"}})
    run, before = old
    record = read_json(run / "run.json")
    record["config"]["loss"]["weighing"] = record["config"]["loss"].pop("weighting")
    write_json(run / "run.json", record)
    assert names(PACKAGE, run) == before


def test_a_run_whose_positives_stood_for_another_loss_is_refused(old):
    """`out` has been the equation of the paper since it is recorded as `each`."""
    assert Config.parse({"loss": {"positives": "out"}}) == Config.parse({"loss": {"positives": "each"}})
    run, _ = old
    record = read_json(run / "run.json")
    record["config"]["loss"]["positives"] = "out"
    write_json(run / "run.json", record)
    assert (
        "loss.positives='out', but the config now says 'each'" in names(PACKAGE, run, "loss.positives=out")["refused"]
    )
