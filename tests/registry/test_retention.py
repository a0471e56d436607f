"""Samples and checkpoints of older versions go before their embeddings do."""

import json

import pytest

from gscl_scale.config.config import Config
from gscl_scale.registry.lease import hold_lease
from gscl_scale.registry.ledger import State
from gscl_scale.registry.promote import promote, rollback
from gscl_scale.registry.retention import complete_versions, remove_parts
from gscl_scale.registry.versions import Registry
from gscl_scale.storage.stores import LocalStore
from tests.registry.test_versions import QUIET, said

FILES = ["checkpoints/a.pt", "embeddings/e.parquet", "run.json", "samples/manifest.json", "samples/round-000/p.arrow"]


def keep(registry, tmp_path, text):
    """A version with all parts, promoted."""
    for file in FILES:
        (tmp_path / text / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / text / file).write_text(f"{file} of {text}")
    with hold_lease(registry.store, 60, 0, QUIET) as lease:
        version = registry.keep(lease, tmp_path / text, FILES, {"made_from": text})
        promoted = (*lease.state.promoted, version.name)
        lease.record(lambda _: {"event": "promoted", "current": version.name, "promoted": promoted})
    return version.name


def files_in(store, name):
    return sorted(file.removeprefix(f"versions/{name}/") for file in store.sizes(f"versions/{name}"))


@pytest.mark.parametrize(
    ("number", "expected"),
    [(1, {"v5", "v6"}), (2, {"v3", "v5", "v6", "v7"}), (3, {"v1", "v3", "v4", "v5", "v6", "v7"})],
)
def test_the_newest_promoted_and_refused_versions_and_all_candidates_stay_complete(number, expected):
    refused = ("v2", "v6", "v4", "v7")
    state = State(current="v5", promoted=("v1", "v3", "v5"), refused=refused, candidates=("v6",), rolled_back=("v4",))
    assert complete_versions(state, number) == expected


def test_parts_of_older_versions_are_removed_and_their_index_names_what_is_left(place, tmp_path):
    registry = Registry(place)
    first, second, third = (keep(registry, tmp_path, text) for text in ("one", "two", "three"))
    for name in (first, second, third):
        registry.folder(name)
    assert remove_parts(registry, 0) == []
    assert remove_parts(registry, 2) == [first]
    assert remove_parts(registry, 2) == [first]  # again, as after a kill in the middle: nothing more happens
    for name, files in ((first, ["embeddings/e.parquet", "run.json"]), (second, FILES), (third, FILES)):
        assert files_in(registry.store, name) == sorted([*files, "index.json"])
        assert sorted(registry.version(name).index["files"]) == files
        assert registry.version(name).index.get("removed", []) == ([] if files == FILES else ["samples", "checkpoints"])
        assert set(files) == set(files_in(LocalStore(registry.place), name)) - {"index.json"}
        assert (registry.folder(name) / "embeddings/e.parquet").exists()


def test_a_version_without_its_parts_can_become_current_and_the_command_says_what_that_means(place, tmp_path):
    registry = Registry(place)
    first, second = (keep(registry, tmp_path, text) for text in ("one", "two"))
    remove_parts(registry, 1)
    where = ("--registry", registry.store.where)
    assert said("promote", first, *where).startswith(f"{first} is current; its samples and checkpoints were removed")
    assert json.loads(said("list", *where, "--json"))[0]["removed"] == ["samples", "checkpoints"]
    assert "removed" not in said("promote", second, *where)
    assert rollback(registry).current == first


def test_a_version_that_becomes_current_while_parts_are_removed_keeps_its_own(place, tmp_path, monkeypatch):
    registry = Registry(place)
    first, second, third = (keep(registry, tmp_path, text) for text in ("one", "two", "three"))

    def removed_and_promoted(store, name):
        monkeypatch.undo()
        store.remove(name)
        promote(registry, second)

    monkeypatch.setattr(type(registry.store), "remove", removed_and_promoted)
    assert remove_parts(registry, 1) == [first, third]
    assert "removed" not in registry.version(second).index


def test_all_versions_stay_complete_unless_that_is_set():
    assert Config.parse({}).retrain.keep_complete == 0
