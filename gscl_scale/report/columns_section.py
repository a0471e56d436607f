"""The columns of the node table, and what was made of them."""

from gscl_scale.graph.column_table import HEADERS, column_rows
from gscl_scale.report.html import Html, collapsible, section, small, table
from gscl_scale.report.run_data import RunData

_MOST = 500  # rows of the table
_OPEN = 30  # a longer table is collapsible


def columns(found: RunData) -> Html:
    """A table of all columns; nothing for a graph that was not made from a node table."""
    summaries = found.graph.manifest.get("columns", []) if found.graph is not None else []
    rows = column_rows(summaries[:_MOST])
    if not rows:
        return Html()
    shown = table("What is in each column, and what was made of it", HEADERS, rows, "columns")
    more = len(summaries) - len(rows)
    rest = small(f"{more:,} more columns are in graph/manifest.json.") if more else ""
    title = "The columns of the node table"
    return section(title, shown if len(rows) <= _OPEN else collapsible(f"{len(rows):,} columns", shown), rest)
