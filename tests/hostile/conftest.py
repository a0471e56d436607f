"""Valid inputs for all tests of this folder, made once; and a store."""

import os
from pathlib import Path

import pytest

from tests.hostile.corpus import make
from tests.hostile.readers import use
from tests.storage_fixtures import s3

__all__ = ["corpus", "s3"]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A folder of valid inputs of every kind."""
    folder = tmp_path_factory.mktemp("corpus")
    before = Path.cwd()
    os.chdir(folder)
    try:
        make(folder, bombs=False)
    finally:
        os.chdir(before)
    use(folder)
    return folder
