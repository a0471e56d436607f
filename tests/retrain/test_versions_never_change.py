"""Versions never change: what writes refuses them as its run, what reads leaves every byte as it is."""

import json

import numpy as np
import pytest

import gscl_scale
from gscl_scale.errors import FolderError
from gscl_scale.registry.versions import Registry
from gscl_scale.retrain.night import retrain
from gscl_scale.run.record import read_record
from gscl_scale.runtime.console import Console
from tests.commands import cli
from tests.retrain.town import Town

RUN = ("--run", "registry/versions/v000001")
OTHER = ("--set", "evaluate.random_splits=3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a registry of one night, whose tables have changed since, and a run of the graph of today."""
    folder = tmp_path_factory.mktemp("night")
    town = Town(folder / "town")
    retrain(town.config(), folder / "registry", Console(quiet=True))
    town.grow()
    values = read_record(folder / RUN[1])["config"]
    (folder / "night.yaml").write_text(json.dumps(values))  # JSON is YAML
    assert cli("ingest", "--config", "night.yaml", "--run", "today", cwd=folder).returncode == 0
    return folder


def content(folder):
    files = [path for path in (folder / "registry").rglob("*") if path.is_file() and path.name != ".lock"]
    return {path: path.read_bytes() for path in files}


@pytest.mark.parametrize(
    "words",
    [
        ("run", *RUN),
        ("run", *RUN, "--overwrite"),
        ("run", *RUN, "--overwrite", "--dry-run"),
        ("run", "--config", "night.yaml", "--run", "registry/versions/new"),
        ("ingest", *RUN, "--overwrite"),
        ("precompute", *RUN),
        ("train", *RUN, "--overwrite"),
        ("stats", *RUN),
        ("report", *RUN),
        ("compare", *RUN),
        ("tune", *RUN),
        ("evaluate", *RUN, *OTHER),
        ("evaluate", *RUN, "--set", "model.width=16"),
        ("embed", *RUN),
        ("embed", *RUN, "--set", "runtime.npy=true", "--out", "all.npy"),
        ("embed", "--config", "night.yaml", "--run", "registry/versions/new", "--graph", "today", "--out", "emb"),
    ],
    ids=" ".join,
)
def test_a_verb_that_writes_refuses_a_version(folder, words):
    before = content(folder)
    done = cli(*words, cwd=folder)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    name = next(word for word in words if word.startswith("registry/")).rpartition("/")[2]
    assert f"gscl-scale: registry/versions/{name} is among the versions of a registry, which never" in done.stderr
    assert f"choose another --run, such as runs/{name}, and name its graph or config" in done.stderr
    assert content(folder) == before


def test_a_version_is_known_from_inside_and_through_a_link(folder):
    (folder / "link").symlink_to(folder / RUN[1])
    for place, where in ((folder / "registry/versions", "v000001"), (folder, "link")):
        assert "which never change" in cli("run", "--run", where, "--overwrite", cwd=place).stderr


def test_a_program_trains_no_version(folder):
    with pytest.raises(FolderError, match=r"v000001 is among the versions .* choose another run=\.\.\., such as"):
        gscl_scale.fit(np.array([[0, 1], [1, 2]]), run=folder / RUN[1])


def test_a_verb_that_reads_takes_a_version_whose_tables_have_changed_since(folder):
    before = content(folder)
    for words in (
        ("evaluate", *RUN, "--json"),
        ("embed", *RUN, "--out", "all.npy"),
        ("embed", "--config", "night.yaml", *RUN, "--graph", "today", "--out", "emb", "--set", "runtime.workers=2"),
        ("neighbors", *RUN, "--id", "person-1"),
        ("status", *RUN),
        ("config", *RUN),
    ):
        done = cli(*words, cwd=folder)
        assert (done.returncode, done.stderr) == (0, ""), words
    assert content(folder) == before
    assert len(np.load(folder / "all.npy")) == 1200
    assert gscl_scale.NodeEmbedder.load(folder / RUN[1]).transform(folder / "today/graph").shape == (1205, 32)


def test_a_folder_that_is_called_versions_and_is_in_no_registry_takes_runs(folder):
    words = ("ingest", "--config", "night.yaml", "--run", "versions/mine")
    assert cli(*words, cwd=folder).returncode == 0
    assert not Registry(folder).ledger.numbers()
