"""Maps of the page with few turns of t-SNE: all of them take seconds for every thousand nodes."""

import contextlib
from collections.abc import Iterator
from unittest import mock

from gscl_scale.report import layout

_TURNS = {"_EXAGGERATED": layout._EXAGGERATED, "_SETTLING": layout._SETTLING}


def shorten_maps() -> None:
    """In this process, and in those that it forks."""
    layout._EXAGGERATED = layout._SETTLING = layout._TURNS_PER_CALL


@contextlib.contextmanager
def whole_maps() -> Iterator[None]:
    """Maps as users get them."""
    with mock.patch.multiple(layout, **_TURNS):
        yield
