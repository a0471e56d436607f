import uuid

import pytest

from gscl_scale.storage import store_at
from tests.s3 import BUCKET, s3_server


@pytest.fixture(scope="session")
def s3():
    with s3_server() as address:
        yield address


@pytest.fixture(params=["folder", "s3"])
def store(request, tmp_path):
    if request.param == "folder":
        return store_at(tmp_path / "store")
    request.getfixturevalue("s3")
    return store_at(f"s3://{BUCKET}/{uuid.uuid4().hex}")
