"""What all tests share."""

import gc
import os

import pytest
from hypothesis import settings

from tests.maps import shorten_maps

settings.register_profile("ci", deadline=None, derandomize=True)
settings.register_profile("local", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")


shorten_maps()
os.fsync = lambda file: None  # no test takes the power away; tests/chaos fails the real one, in other processes
gc.disable()  # until all is imported


def pytest_collection_finish() -> None:
    """Keep the collector of garbage from looking at all libraries and tests again and again."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def blank_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without drawn curves, for tests of something else: matplotlib takes half of the time of a small run."""
    from gscl_scale.report.html import (
        Html,  # not at once: it imports numpy, which the tests of startup time do not want
    )

    monkeypatch.setattr("gscl_scale.report.plots.as_svg", lambda *_: Html("<svg></svg>"))
