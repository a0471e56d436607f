"""One self-contained page: what was reached, how, on which graph; and a map of the embeddings to walk on."""

from pathlib import Path

from gscl_scale.evaluate.summary import graph_warnings, training_warnings, warnings_of
from gscl_scale.io.atomic import write_text
from gscl_scale.report.columns_section import columns
from gscl_scale.report.graph_section import graph, sampling
from gscl_scale.report.html import asset, whole_page
from gscl_scale.report.links_section import links
from gscl_scale.report.map_section import map_section
from gscl_scale.report.provenance import what_was_run
from gscl_scale.report.results import accuracy, by_fraction, headline, neighbourhoods
from gscl_scale.report.run_data import RunData
from gscl_scale.report.training_curves import training


def write_report(path: Path, found: RunData, mark: str = "") -> None:
    """Publish the page of a run; `mark` is its last line, by which a page of other figures is recognized."""
    metrics = found.metrics
    warnings = [*warnings_of(metrics), *training_warnings(found.curve), *graph_warnings(found.statistics)]
    drawn = map_section(found.graph, found.nodes) if found.graph is not None and found.nodes is not None else ""
    sections = [
        accuracy(metrics),
        by_fraction(metrics),
        links(metrics),
        neighbourhoods(metrics),
        training(found),
        drawn,
        graph(found),
        columns(found),
        sampling(found),
        what_was_run(found),
    ]
    script = asset("map.js") if drawn else ""
    write_text(path, whole_page(found.name, headline(metrics, found.name), warnings, sections, script) + mark)
