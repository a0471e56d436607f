"""The result of one check: a value, its state, and what to do about it."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One thing that was checked; `cure` is empty where the state is ok.

    ok       as it should be
    note     the work runs, slower or with less
    trouble  the configured work would fail
    """

    about: str
    state: Literal["ok", "note", "trouble"]
    found: str
    cure: str = ""
