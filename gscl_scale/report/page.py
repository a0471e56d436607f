"""One self-contained page: what was reached, how, on which graph; and a map of the embeddings to walk on."""

from html import escape
from pathlib import Path

from gscl_scale.evaluate.summary import graph_warnings, training_warnings, warnings_of
from gscl_scale.io.atomic import write_text
from gscl_scale.report.graph_section import graph, sampling
from gscl_scale.report.html import asset, whole_page
from gscl_scale.report.map_section import map_section
from gscl_scale.report.provenance import what_was_run
from gscl_scale.report.results import accuracy, by_fraction, headline, neighbourhoods, take_care
from gscl_scale.report.run_data import Findings
from gscl_scale.report.training_curves import course


def write_report(path: Path, found: Findings) -> None:
    """Publish the page."""
    write_text(path, render(found))


def render(found: Findings) -> str:
    """The page as text."""
    metrics = found.metrics
    warnings = [*warnings_of(metrics), *training_warnings(found.curve), *graph_warnings(found.statistics)]
    has_map = found.graph is not None and found.nodes is not None
    body = [
        f'<header><p class="over">gscl-scale report</p><h1 dir="auto">{escape(found.name)}</h1>'
        f'<p class="lead">{headline(metrics, found.name)}</p>{take_care(warnings)}</header>',
        accuracy(metrics),
        by_fraction(metrics),
        neighbourhoods(metrics),
        course(found),
        map_section(found.graph, found.nodes) if found.graph is not None and found.nodes is not None else "",
        graph(found),
        sampling(found),
        what_was_run(found),
    ]
    return whole_page(found.name, body, asset("map.js") if has_map else "")
