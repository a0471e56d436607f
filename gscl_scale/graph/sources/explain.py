"""Errors of other packages as one sentence for the user."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from gscl_scale.errors import GraphError
from gscl_scale.text import shortened


@contextlib.contextmanager
def explained(sentence: Callable[[str], str], *errors: type[BaseException]) -> Iterator[None]:
    """Raise GraphError in place of these errors; `sentence` makes its message from theirs."""
    try:
        yield
    except GraphError:
        raise
    except errors as error:
        raise GraphError(sentence(shortened(error) or type(error).__name__)) from None


def where_it_begins(path: Path) -> str:
    """Where a relative path begins, in words for a message; "" for an absolute one."""
    return "" if path.is_absolute() else f" in {Path.cwd()}, where relative paths begin"
