"""Versions, the pointer to the current one, and changing it by hand."""

import json
import time

import pytest
from typer.testing import CliRunner

from gscl_scale.cli.main import app
from gscl_scale.errors import FolderError, UserError
from gscl_scale.registry.lease import hold_lease
from gscl_scale.registry.promote import promote, rollback
from gscl_scale.registry.versions import Check, Registry
from gscl_scale.runtime.console import Console

QUIET = Console(quiet=True)


@pytest.fixture
def registry(place):
    return Registry(place)


def keep(registry, tmp_path, text, reason=""):
    """Put a version there, as a night does; with a reason the gate refuses it."""
    run = tmp_path / f"run-{text}"
    run.mkdir(exist_ok=True)
    (run / "embeddings.parquet").write_text(text)
    (run / "log.jsonl").write_text(f"{time.time()}: not the content of {text}")
    with hold_lease(registry.store, 60, 0, QUIET) as lease:
        checks = [Check(name="rank", figure=1.0, limit=2.0, holds=not reason, sentence=reason)]
        version = registry.keep(lease, run, ["embeddings.parquet", "log.jsonl"], {"made_from": text, "checks": checks})
        state = lease.state
        if reason:
            lease.record("refused", refused=(*state.refused, version.name))
        else:
            lease.record("promoted", current=version.name, promoted=(*state.promoted, version.name))
        registry.point()
    return version.name


def pointed_at(registry):
    return json.loads(registry.store.read("current.json"))["version"]


def read(registry):
    return (registry.current() / "embeddings.parquet").read_text()


def test_without_a_version_nothing_is_current(registry):
    with pytest.raises(FolderError, match="has no current version; run gscl-scale retrain first"):
        registry.current()


def test_the_pointer_names_the_version_that_was_promoted_last(registry, tmp_path):
    first = keep(registry, tmp_path, "one")
    assert (pointed_at(registry), read(registry)) == (first, "one")
    keep(registry, tmp_path, "two", reason="rank is 1")
    assert (pointed_at(registry), read(registry)) == (first, "one")
    third = keep(registry, tmp_path, "three")
    assert (pointed_at(registry), read(registry)) == (third, "three")


def test_a_pointer_that_was_left_behind_is_put_right(registry, tmp_path):
    first = keep(registry, tmp_path, "one")
    second = keep(registry, tmp_path, "two")
    registry.store.write("current.json", json.dumps({"version": first}).encode())  # by a run that woke late
    registry.point()
    assert pointed_at(registry) == second


def test_rollback_restores_the_version_before_byte_for_byte(registry, tmp_path):
    first = keep(registry, tmp_path, "one")
    second = keep(registry, tmp_path, "two")
    state = rollback(registry, 60, QUIET)
    assert (state.current, state.refused, pointed_at(registry), read(registry)) == (first, (second,), first, "one")
    with pytest.raises(UserError, match="there is no earlier version to go back to"):
        rollback(registry, 60, QUIET)


def test_a_version_that_the_gate_refused_can_be_promoted_by_hand(registry, tmp_path):
    keep(registry, tmp_path, "one")
    second = keep(registry, tmp_path, "two", reason="rank is 1")
    state = promote(registry, second, 60, QUIET)
    assert (state.current, state.refused, read(registry)) == (second, (), "two")
    with pytest.raises(UserError, match="expected a stored version, got v000099; there are: v000001, v000002"):
        promote(registry, "v000099", 60, QUIET)
    assert registry.ledger.newest().current == second


def test_only_versions_that_nobody_names_are_cleared_and_none_of_a_later_lease(registry, tmp_path):
    first = keep(registry, tmp_path, "one")
    second = keep(registry, tmp_path, "two")
    for name in (first, second):
        registry.folder(name)
    with hold_lease(registry.store, 60, 0, QUIET) as lease:
        registry.store.write("versions/v000099/embeddings.parquet", b"of a run that has taken over from this one")
        lease.record("dropped", promoted=(second,))
        assert registry.clear(lease) == [first]
    assert {name.split("/")[1] for name in registry.store.sizes("versions")} == {second, "v000099"}
    assert not (registry.place / "versions" / first / "embeddings.parquet").exists()
    assert read(registry) == "two"


def test_versions_with_the_same_files_have_the_same_content_whatever_their_logs_say(registry, tmp_path):
    one, again, two = (registry.version(keep(registry, tmp_path, text)).files for text in ("one", "one", "two"))
    assert one == again != two


def join_names(registry):
    result = CliRunner().invoke(app, ["registry", "list", "--registry", str(registry.store.where), "--json"])
    return [version["state"] for version in json.loads(result.stdout)]


def test_the_list_tells_versions_that_were_rolled_back_from_those_that_the_gate_refused(registry, tmp_path):
    keep(registry, tmp_path, "one")
    for text in ("two", "three"):
        by_hand = keep(registry, tmp_path, text, reason="rank is 1")
    promote(registry, by_hand, 60, QUIET)
    rollback(registry, 60, QUIET)
    assert join_names(registry) == ["current", "refused", "rolled back"]
    promote(registry, by_hand, 60, QUIET)
    assert join_names(registry) == ["earlier", "refused", "current"]


def test_the_list_reads_ledgers_that_do_not_name_versions_that_were_rolled_back(registry, tmp_path):
    keep(registry, tmp_path, "one")
    keep(registry, tmp_path, "two")
    rollback(registry, 60, QUIET)
    for name in registry.store.sizes("ledger"):
        record = json.loads(registry.store.read(name))
        del record["rolled_back"]
        registry.store.write(name, json.dumps(record).encode())
    assert join_names(registry) == ["current", "rolled back"]
