"""Fixtures of the tests of graphs."""

import pytest

from gscl_scale.graph import features
from tests.storage_fixtures import s3

__all__ = ["features_as_they_are", "s3"]


@pytest.fixture(autouse=True)
def features_as_they_are(monkeypatch):
    """Few features stay as they are: these tests look at what was read. Yields the bound of few features."""
    few = features.FEW
    monkeypatch.setattr(features, "FEW", 0)
    return few
