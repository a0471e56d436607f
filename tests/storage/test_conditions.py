"""Whoever relies on conditional writes finds out at the start whether the store, or the disk, keeps to them."""

import errno
import os

import pytest

from gscl_scale.errors import FolderError
from gscl_scale.registry.lease import hold_lease
from gscl_scale.registry.ledger import Ledger
from gscl_scale.runtime.console import Console
from gscl_scale.storage.mirror import working_copy
from gscl_scale.storage.stores import check_creation
from gscl_scale.storage.urls import store_at
from tests.careless_s3 import s3_files
from tests.commands import cli
from tests.s3 import BUCKET

PLACE = f"s3://{BUCKET}/place"
REFUSAL = r"s3://bucket/place: this store ignores conditional writes \(If-None-Match\).*two runs could overwrite"


@pytest.fixture
def careless(tmp_path, monkeypatch):
    """A store that overwrites; nobody else's files are in it."""
    monkeypatch.setenv("GSCL_SCALE_CACHE", str(tmp_path / "cache"))
    with s3_files(honest=False) as server:
        yield server


def test_a_store_that_keeps_to_conditions_passes_and_nothing_remains():
    with s3_files(honest=True) as server:
        check_creation(store_at(PLACE))
        assert not server.files
        with hold_lease(store_at(PLACE), 60, 0, Console(quiet=True)) as lease:
            assert lease.token == 1
        assert {name.split("/")[1] for name in server.files} == {"ledger"}


def test_a_store_passes_whatever_it_is(store):
    check_creation(store, "below")
    assert not store.sizes()


def test_a_lease_is_not_taken_in_a_store_that_overwrites(careless):
    with pytest.raises(FolderError, match=REFUSAL), hold_lease(store_at(PLACE), 60, 0, Console(quiet=True)):
        pytest.fail("the lease was taken")
    assert (careless.files, careless.ignored) == ({}, 1)


def test_a_run_does_not_begin_in_a_store_that_overwrites(careless):
    with pytest.raises(FolderError, match=REFUSAL), working_copy(PLACE):
        pytest.fail("the work has begun")
    assert (careless.files, careless.ignored) == ({}, 1)


@pytest.mark.parametrize(
    "command",
    [
        ("retrain", "--set", "graph.source=synthetic", "--set", "graph.preset=small", "--registry", PLACE),
        ("run", "--set", "graph.source=synthetic", "--run", PLACE),
    ],
    ids=["retrain", "run"],
)
def test_commands_end_with_one_sentence_before_any_work(careless, tmp_path, command):
    done = cli(*command, cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "ignores conditional writes" in done.stderr
    assert (careless.files, careless.ignored) == ({}, 1)


def test_a_version_is_not_changed_by_hand_in_a_store_that_overwrites(careless, tmp_path):
    ledger = Ledger(store_at(PLACE))
    ledger.append(ledger.newest(), event="leased")
    before, careless.ignored = dict(careless.files), 0
    done = cli("registry", "rollback", "--registry", PLACE, cwd=tmp_path)
    assert done.returncode == 2
    assert "ignores conditional writes" in done.stderr
    assert (careless.files, careless.ignored) == (before, 1)


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS])
def test_a_registry_in_a_folder_without_hard_links_is_refused(tmp_path, monkeypatch, number):
    def refuse(source, target, **_):
        raise OSError(number, os.strerror(number), str(source), None, str(target))

    monkeypatch.setattr(os, "link", refuse)
    says = rf"{tmp_path}/registry: the file system has no hard links.*; choose a folder on a local disk, NFS or Lustre"
    with (
        pytest.raises(FolderError, match=says),
        hold_lease(store_at(tmp_path / "registry"), 60, 0, Console(quiet=True)),
    ):
        pytest.fail("the lease was taken")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not Ledger(store_at(tmp_path / "registry")).numbers()
