"""Places that are no registries: refused in one sentence with what to type, and left as they are."""

import pytest

from gscl_scale.registry.versions import Registry
from tests.commands import cli
from tests.registry.test_versions import keep

VERBS = [("list",), ("show",), ("promote", "v000001"), ("pin", "v000001"), ("unpin",), ("rollback",)]


def refused(folder, *words):
    """The sentence of a command that is refused and leaves nothing behind."""
    before = sorted(folder.rglob("*"))
    done = cli(*words, cwd=folder)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert sorted(folder.rglob("*")) == before
    return done.stderr


@pytest.fixture
def folder(tmp_path):
    """A folder with a run, a registry and a file."""
    (tmp_path / "runs/plain").mkdir(parents=True)
    (tmp_path / "runs/plain/run.json").write_text("{}")
    (tmp_path / "edges.csv").write_text("source,target\n")
    keep(Registry(tmp_path / "versions"), tmp_path, "one")
    return tmp_path


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_a_verb_that_reads_a_registry_takes_no_other_place_for_one(folder, verb):
    asked = ("registry", *verb, "--registry")
    assert "typo holds no registry; to start one there: gscl-scale retrain" in refused(folder, *asked, "typo")
    assert "did you mean --registry versions?" in refused(folder, *asked, "version")
    assert "gscl-scale status --run runs/plain shows the run" in refused(folder, *asked, "runs/plain")
    assert "edges.csv is a file, expected a folder" in refused(folder, *asked, "edges.csv")


def test_a_night_takes_no_file_and_no_run_for_its_registry(folder):
    asked = ("retrain", "--set", "graph.source=synthetic", "--registry")
    for place in ("edges.csv", "edges.csv/below"):
        assert f"--registry {place}: edges.csv is a file, expected a folder" in refused(folder, *asked, place)
    assert "--registry runs/plain: this is a run, expected a registry" in refused(folder, *asked, "runs/plain")


@pytest.mark.parametrize("verb", ["embed", "status", "report", "config"])
def test_a_verb_that_takes_a_run_names_the_run_in_a_registry(folder, verb):
    says = refused(folder, verb, "--run", "versions")
    assert "versions is a registry, expected a run; gscl-scale registry list --registry versions shows" in says
    assert "the run of its current version is versions/versions/v000001" in says
