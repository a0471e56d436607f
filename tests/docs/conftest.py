"""The worlds in which blocks are run, made once."""

import shutil

import pytest

from tests.docs.world import finish_runs, write_inputs
from tests.storage_fixtures import s3

__all__ = ["s3", "worlds"]


@pytest.fixture(scope="session")
def worlds(tmp_path_factory):
    """A folder with the worlds `fresh` and `finished`."""
    folder = tmp_path_factory.mktemp("worlds")
    (folder / "fresh").mkdir()
    write_inputs(folder / "fresh")
    shutil.copytree(folder / "fresh", folder / "finished")
    finish_runs(folder / "finished")
    return folder
