"""The columns of a node table, as rows for readers."""

from collections.abc import Sequence

from gscl_scale.graph.types import ColumnSummary
from gscl_scale.text import shortened

HEADERS = ("column", "type", "missing", "distinct", "what was made of it")
_MOST_LINES = 60
_LONGEST_CELL = 40


def column_rows(summaries: Sequence[ColumnSummary]) -> list[tuple[str, str, str, str, str]]:
    """One row for each column: name, type, missing cells, distinct values, what was made of it."""
    return [
        (shortened(one["name"], _LONGEST_CELL), one["type"], f"{one['missing']:,}", _distinct(one), one["made"])
        for one in summaries
    ]


def column_lines(summaries: Sequence[ColumnSummary]) -> list[str]:
    """The rows as aligned lines for a terminal; the last says how many more there are."""
    rows = [HEADERS, *column_rows(summaries[:_MOST_LINES])]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEADERS) - 1)]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2].rjust(widths[2]), row[3].rjust(widths[3]), row[4]]
        )
        for row in rows
    ]
    more = len(summaries) - _MOST_LINES
    rest = [f"and {more:,} more columns, which are in graph/manifest.json and the report"] if more > 0 else []
    return [f"  {line}" for line in [*lines, *rest]] if summaries else []


def _distinct(summary: ColumnSummary) -> str:
    if summary["distinct"] is None:
        return "-"
    return f"{'' if summary['exact'] else '~'}{summary['distinct']:,}"
