"""Valid inputs for all tests of this folder, made once; and a store."""

import pytest

from tests.hostile.corpus import make
from tests.hostile.readers import use
from tests.storage_fixtures import s3

__all__ = ["corpus", "s3"]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A folder of valid inputs of every kind."""
    folder = tmp_path_factory.mktemp("corpus")
    make(folder, bombs=False)
    use(folder)
    return folder
