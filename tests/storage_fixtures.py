"""Stores of both kinds, for the tests of whatever uses them."""

import uuid

import pytest

from gscl_scale.storage.urls import store_at
from tests.s3 import BUCKET, s3_server


@pytest.fixture(scope="session")
def s3():
    """A real S3 server; its address."""
    with s3_server() as address:
        yield address


@pytest.fixture(params=["folder", "s3"])
def place(request, tmp_path, monkeypatch):
    """Where a store may be: a folder, or a URL."""
    if request.param == "folder":
        return str(tmp_path / "store")
    request.getfixturevalue("s3")
    monkeypatch.setenv("GSCL_SCALE_CACHE", str(tmp_path / "cache"))
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"


@pytest.fixture
def store(place):
    """The store there."""
    return store_at(place)
