"""Rules of accessibility on every kind of page, in light and dark, on a desk and on a phone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gscl_scale.bench.browser import CHROMIUM, Browser, Tab, chromium
from gscl_scale.graph.sources.node_cells import NodeCells
from gscl_scale.report.compare_runs import write_comparison
from gscl_scale.report.run_data import RunData
from tests.report.made import clustered, graph_of, page_of
from tests.report.test_browser import press
from tests.report.test_report import CURVE, figures, metrics, render, statistics
from tests.slow import slow

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium, chromium-browser or google-chrome")

RULES = Path(__file__).with_name("accessibility.js").read_text(encoding="utf-8")
NAMED = {
    "button", "link", "combobox", "searchbox", "textbox", "slider", "image", "region", "navigation", "application",
    "heading", "Canvas", "DisclosureTriangle",
}  # fmt: skip
LOOKS = [
    pytest.param(dark, width, id=f"{'dark' if dark else 'light'} {width}")
    for dark in (False, True)
    for width in (360, 1200)
]
LOGGED = {"per_level": [2.0, 1.0], "gated": 0.25, "anchors": 100, "step_s": 0.5, "data_wait_s": 0.1}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page with everything, one of a failed run without a map, and one of two runs."""
    folder = tmp_path_factory.mktemp("pages")
    vectors, labels = clustered(120, 4)
    graph = graph_of(
        folder / "graph", [f"node {number}" for number in range(120)], [f"kind {label}" for label in labels]
    )
    cells = [
        NodeCells("size", numbers=np.arange(120.0)),
        NodeCells("colour", text=pa.array([f"colour {number % 50}" for number in range(120)], pa.large_string())),
    ]
    curve = [{"step": step, "loss": 3 - step / 100, **LOGGED} for step in range(100)]
    found: dict[str, Any] = {"metrics": metrics(), "statistics": statistics(), "curve": curve}
    few = {**metrics()["probe"], "trained": figures(0.6, 0.55)}
    page_of(folder / "map.html", graph, vectors, {**found, "cells": cells})
    render(folder / "failed.html", metrics={**metrics(), "probe": few}, statistics={**statistics(), "isolated": 3})
    runs = {name: RunData(metrics=metrics(), statistics=statistics(), curve=CURVE) for name in ("first", "second")}
    write_comparison(folder / "runs.html", runs, np.eye(2))
    return {path.stem: path for path in folder.glob("*.html")}


def flaws(tab: Tab) -> list[str]:
    return [*tab.run(RULES), *nameless(tab)]


def nameless(tab: Tab) -> list[str]:
    """What must have a name and has none, in the tree that Chromium gives to screen readers."""
    tree = tab.call("Accessibility.getFullAXTree")["nodes"]
    shown = [node for node in tree if not node["ignored"] and node["role"]["value"] in NAMED]
    assert {"link", "navigation", "heading"} <= {node["role"]["value"] for node in shown}
    return [f"no name: {node}" for node in shown if not node.get("name", {}).get("value", "").strip()]


@pytest.mark.parametrize(("dark", "width"), LOOKS)
@pytest.mark.parametrize("name", ["map", *slow("failed", "runs")])
def test_no_rule_is_broken(browser: Browser, pages: dict[str, Path], name: str, dark: bool, width: int) -> None:
    tab = browser.open(pages[name], dark=dark, width=width, height=740)
    assert flaws(tab) == []
    tab.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert flaws(tab) == []
    if name == "map":
        tab.run("select(3)")
        tab.wait("document.querySelectorAll('[data-part=chosen] li').length > 0")
        assert flaws(tab) == []
        for number in range(tab.run("ABOUT.modes.length")):
            tab.run(f"colourBy({number})")
            assert flaws(tab) == []


@pytest.mark.parametrize("name", ["map", "failed", "runs"])
def test_tab_reaches_everything_in_the_order_of_the_page_and_shows_where_it_is(
    browser: Browser, pages: dict[str, Path], name: str
) -> None:
    tab = browser.open(pages[name], width=1200, height=740)
    everything = tab.run(
        "(window.stops = [...document.querySelectorAll('a[href],button,input,select,summary,[tabindex=\"0\"]')]"
        ".filter(e => e.checkVisibility() && e.getClientRects().length)).length"
    )
    reached = []
    for _ in range(everything):
        press(tab, "Tab")
        reached.append(tab.run("stops.indexOf(document.activeElement)"))
        style = tab.run(
            "(() => { const s = getComputedStyle(document.activeElement); return [s.outlineStyle, s.outlineWidth]; })()"
        )
        assert style == ["solid", "2px"], tab.run("document.activeElement.outerHTML")[:200]
    assert reached == list(range(everything))


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        ("document.querySelector('.over').style.color = '#999'", "contrast"),
        ("document.documentElement.lang = ''", "language"),
        ("document.querySelector('h2').outerHTML = '<h4>deep</h4>'", "heading order"),
        (
            "document.querySelector('[data-part=id]').parentElement.replaceWith(document.createElement('input'))",
            "no name",
        ),
        ("document.querySelector('[data-part=canvas]').removeAttribute('aria-label')", "no name"),
        ("document.body.append(document.createElement('div'))", "outside landmarks"),
        ("document.querySelector('main').style.width = '2000px'", "wider than the window"),
        ("document.querySelector('[data-part=in]').style.padding = '0'", "target size"),
    ],
)
def test_the_rules_notice_what_breaks_them(browser: Browser, pages: dict[str, Path], broken: str, rule: str) -> None:
    tab = browser.open(pages["map"])
    tab.run(f"{{ {broken} }}")
    assert any(flaw.startswith(rule) for flaw in flaws(tab))
