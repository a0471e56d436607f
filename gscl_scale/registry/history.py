"""Figures of the gate over the last versions, also of those that are no longer stored."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

from typing_extensions import TypedDict

from gscl_scale.registry.ledger import State
from gscl_scale.registry.versions import Changes, Check, Figures, HistoryRow, Links, Registry

MOST_ROWS = 30


class HistoryEvent(TypedDict):
    """The line of a night's log that its report shows."""

    rows: list[HistoryRow]


def rows_until(registry: Registry, state: State) -> list[HistoryRow]:
    """A row for each of the last versions, oldest first, by the index of the newest that is stored."""
    stored = state.kept()
    return registry.version(stored[-1]).index.get("history", []) if stored else []


def add_row(rows: Sequence[HistoryRow], row: HistoryRow) -> list[HistoryRow]:
    """The last rows and one more."""
    return [*rows, row][-MOST_ROWS:]


def history_row(
    version: str, nodes: int, figures: Figures, checks: Sequence[Check], links: Links, changes: Changes
) -> HistoryRow:
    """The row of a version that was made now."""
    row: HistoryRow = {
        "version": version,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "nodes": nodes,
        "figures": figures,
        "refused_by": [check["name"] for check in checks if not check["holds"]],
    }
    if since := links.get("since"):
        row["foreseen"] = since["current"]["auc"]
    if "sampled_again" in changes:
        row["sampled_again"] = changes["sampled_again"]
    return row


def figures_in(row: HistoryRow) -> Mapping[str, float]:
    """All figures of a row by their names, without those that were not measured."""
    compared = cast(Mapping[str, float | None], row["figures"])
    own = {**compared, "foreseen": row.get("foreseen"), "sampled_again": row.get("sampled_again")}
    return {name: value for name, value in own.items() if value is not None}
