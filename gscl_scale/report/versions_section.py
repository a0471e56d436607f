"""How the figures of the gate went from version to version, where the run is a version of a registry."""

from collections.abc import Sequence

from gscl_scale.io.validate import schema_error
from gscl_scale.registry.history import HistoryEvent, figures_in
from gscl_scale.registry.versions import HistoryRow
from gscl_scale.report.html import Html, figures, section, table
from gscl_scale.report.plots import lines_svg
from gscl_scale.report.run_data import RunData

_SCORES = ("probe", "ranking", "links", "foreseen", "alignment")
_COLUMNS = (*_SCORES, "cosine", "rank", "norm", "sampled_again")
_HEADERS = ("version", "made", "nodes", *(name.replace("_", " ") for name in _COLUMNS), "gate")


def versions(found: RunData) -> Html:
    """The last versions as curves and a table; nothing for a run that was not made by `retrain`."""
    event = dict(found.last("retrain", "versions"))
    rows: list[HistoryRow] = [] if schema_error(HistoryEvent, event) else event["rows"]
    drawn = figures(
        (_curves(rows, _SCORES, "score"), "Scores", "of each version, as the gate compares them."),
        (_curves(rows, ("rank",), "effective rank"), "Effective rank", "of the embeddings."),
        (_curves(rows, ("norm",), "median length"), "Length", "of the embeddings, by their median."),
        (_curves(rows, ("sampled_again",), "share"), "Change", "as the share of the anchors sampled again."),
    )
    return section(
        "How does it change from version to version?",
        drawn,
        table("The last versions, as they were when each was made", _HEADERS, map(_cells, rows)),
    )


def _curves(rows: Sequence[HistoryRow], names: Sequence[str], y: str) -> str:
    """A line for each figure that at least two versions have, by the numbers of the versions."""
    points = {
        name: [(float(row["version"].lstrip("v")), figures_in(row)[name]) for row in rows if name in figures_in(row)]
        for name in names
    }
    lines = {name: line for name, line in points.items() if len(line) > 1}
    return lines_svg(lines, f"versions-{names[0]}", "version", y) if lines else ""


def _cells(row: HistoryRow) -> list[str]:
    found = figures_in(row)
    shown = [f"{found[name]:.4g}" if name in found else "-" for name in _COLUMNS]
    gate = f"refused by {', '.join(row['refused_by'])}" if row["refused_by"] else "passed"
    return [row["version"], row["time"][:10], f"{row['nodes']:,}", *shown, gate]
