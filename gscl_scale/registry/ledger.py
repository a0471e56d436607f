"""The ledger of a registry: numbered records, each created by one writer, each with the whole state after it.

Who wants to change something creates the record after the newest that it knows. If another was faster, the creation
fails, and nothing has changed: so a run that lost its lease, however late it wakes, cannot publish.
"""

import json
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from gscl_scale.io.validate import Count, checked, parse_json
from gscl_scale.storage.stores import Store

FOLDER = "ledger"
VersionName = Annotated[str, Field(pattern=r"^v[0-9]{1,18}$")]


@dataclass(frozen=True)
class State:
    """A registry after a record of its ledger.

    number       of the record; 0 before the first
    token        of the last lease; each lease has a higher one
    holder       who has the lease, "" if nobody has
    current      name of the version that is current, "" if none is
    promoted     versions that have been current and are stored, the current one last
    refused      versions that are stored and not promoted by a night: the gate refused them, or they were rolled back
    rolled_back  the latter
    event, version, reason, time      what the record is about
    """

    number: int = 0
    token: int = 0
    holder: str = ""
    current: str = ""
    promoted: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    event: str = ""
    version: str = ""
    reason: str = ""
    time: str = ""
    rolled_back: tuple[str, ...] = ()

    def kept(self) -> list[str]:
        """All versions that are stored, oldest first."""
        return sorted({*self.promoted, *self.refused})


class _Record(TypedDict):
    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # read by pydantic

    number: Count
    token: Count
    holder: str
    current: VersionName | Literal[""]
    promoted: list[VersionName]
    refused: list[VersionName]
    event: str
    version: str
    reason: str
    time: str
    rolled_back: NotRequired[list[VersionName]]  # younger than the ledgers


class Ledger:
    """The records in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def numbers(self) -> list[int]:
        """Numbers of all records."""
        names = (name.rpartition("/")[2].removesuffix(".json") for name in self._store.sizes(FOLDER))
        return sorted(int(name) for name in names if name.isdigit())

    def newest(self) -> State:
        """The state now."""
        numbers = self.numbers()
        return self.at(numbers[-1]) if numbers else State()

    def at(self, number: int) -> State:
        """The state after a record."""
        name = f"{FOLDER}/{number:08d}.json"
        where, cure = f"{self._store.where}/{name}", "expected a record of the registry, restore it from a backup"
        values = checked(_Record, parse_json(self._store.read(name) or b"", where, cure), where, cure)
        lists = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
        return State(**{**values, **lists, "number": number})

    def append(self, state: State, **changes: Any) -> State | None:
        """The state after a change of `state`; None if that is not the newest state any more."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        following = replace(state, number=state.number + 1, **{"version": "", "reason": "", "time": now, **changes})
        content = (json.dumps(asdict(following), indent=2) + "\n").encode()
        return following if self._store.create(f"{FOLDER}/{following.number:08d}.json", content) else None
