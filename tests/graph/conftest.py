"""Fixtures of the tests of graphs."""

import pytest

from gscl_scale.graph import alikeness, features
from gscl_scale.graph.sources import column_scales
from tests.storage_fixtures import s3

__all__ = ["features_as_they_are", "s3"]


@pytest.fixture(autouse=True)
def features_as_they_are(monkeypatch):
    """Features stay as they are: these tests look at what was read. Returns the bound of few features."""
    few = features.FEW
    monkeypatch.setattr(features, "FEW", 0)
    monkeypatch.setattr(column_scales, "_SCALES_APART", float("inf"))
    monkeypatch.setattr(alikeness, "_FEWEST_EDGES", 1 << 62)
    return few
