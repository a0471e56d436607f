"""What an examination finds: a value, a sentence about what to do, and how grave it is."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; `cure` is empty where all is well.

    ok       as it should be
    note     the work goes on, slower or with less
    trouble  the work that is configured would fail
    """

    about: str
    state: Literal["ok", "note", "trouble"]
    found: str
    cure: str = ""


def ok(about: str, found: str) -> Finding:
    """All is well."""
    return Finding(about, "ok", found)


def note(about: str, found: str, cure: str) -> Finding:
    """Something is not as good as it could be."""
    return Finding(about, "note", found, cure)


def trouble(about: str, found: str, cure: str) -> Finding:
    """Something must be mended first."""
    return Finding(about, "trouble", found, cure)
