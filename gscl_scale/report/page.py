"""One self-contained page: what was reached, a map of the embeddings to walk on, how it was reached, on which graph."""

from pathlib import Path

from gscl_scale.evaluate.summary import graph_warnings, training_warnings, warnings_of
from gscl_scale.io.atomic import write_text
from gscl_scale.report.columns_section import columns
from gscl_scale.report.failure import Failure, failure_of
from gscl_scale.report.graph_section import graph, sampling
from gscl_scale.report.html import (
    CARE,
    Html,
    asset,
    care,
    care_link,
    definitions,
    element,
    html,
    page_head,
    sentence,
    whole_page,
)
from gscl_scale.report.links_section import links
from gscl_scale.report.map_section import map_section
from gscl_scale.report.provenance import what_was_run
from gscl_scale.report.results import accuracy, by_fraction, headline, neighbourhoods
from gscl_scale.report.run_data import RunData
from gscl_scale.report.training_curves import training
from gscl_scale.report.versions_section import versions
from gscl_scale.text import counted


def write_report(path: Path, found: RunData, mark: str = "") -> None:
    """Publish the page of a run; `mark` is its last line, by which a page of other figures is recognized."""
    metrics, failure = found.metrics, failure_of(found)
    warnings = [*warnings_of(metrics), *training_warnings(found.curve), *graph_warnings(found.statistics)]
    if failure:
        warnings = [one for one in warnings if one not in failure.covered]
    drawn = map_section(found)
    sections = [
        ("Map", drawn),
        (CARE, care(warnings)),
        ("Accuracy", accuracy(metrics)),
        ("Train shares", by_fraction(metrics)),
        ("Links", links(metrics)),
        ("Neighbourhoods", neighbourhoods(metrics)),
        ("Training", training(found)),
        ("Graph", graph(found)),
        ("Columns", columns(found)),
        ("Samples", sampling(found)),
        ("Versions", versions(found)),
        ("Settings", what_was_run(found)),
    ]
    lead = headline(metrics, found.name)
    head = page_head(
        _facts(found),
        found.name,
        html(element("strong", sentence(failure.what)), " ", lead) if failure else lead,
        _reason(failure) if failure else "",
        care_link(warnings),
        kind="head" if failure is None else "bad" if failure.certain else "bad unsure",
    )
    write_text(path, whole_page(found.name, head, sections, asset("map.js") if drawn else "") + mark)


def _reason(failure: Failure) -> Html:
    return definitions([("Cause", sentence(failure.cause)), ("Cure", sentence(failure.cure))])


def _facts(found: RunData) -> str:
    """The size of what was embedded, and of the embeddings."""
    statistics, width = found.statistics, found.metrics.get("width", {}).get("trained")
    parts = [counted(statistics["nodes"], "node", "nodes"), counted(statistics["edges"], "edge", "edges")]
    parts += [f"embeddings of {counted(width, 'column', 'columns')}"] if width else []
    return " · ".join(parts)
