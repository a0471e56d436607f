"""`bench report`: how the page of a run opens and reacts in a headless Chromium, without a network."""

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from gscl_scale.bench.browser import Browser, Tab, chromium
from gscl_scale.bench.harness import Columns, Line, table_of
from gscl_scale.bench.options import Report
from gscl_scale.errors import FolderError, RunError
from gscl_scale.graph.graph import Graph
from gscl_scale.run.folder import Run
from gscl_scale.text import format_bytes

_SHOW_MAP = "document.querySelector('canvas').scrollIntoView({block: 'center'})"
_FIRST_NODE = (
    "(() => { const b = canvas.getBoundingClientRect(), [x, y] = toScreen(0); return [x + b.left, y + b.top]; })()"
)
_IS_LISTED = "document.querySelectorAll('[data-part=chosen] li').length > 0"
_ZOOM = (
    "new Promise(done => { const began = performance.now();"
    "canvas.dispatchEvent(new KeyboardEvent('keydown', {key: '+', bubbles: true}));"
    "requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began))); })"
)


@dataclass(frozen=True)
class Opened(Line):
    """The page of a run in the browser; times are medians of the turns, `slowest_seconds` is of the slowest to open.

    dots             of the map
    open_seconds     until the page is loaded and its map drawn
    click_seconds    from a click on a node until its nearest nodes are listed
    zoom_seconds     until the map is drawn again
    complaints       messages of the console, errors and requests to a network
    """

    run: str
    nodes: int
    dots: int
    bytes: int
    open_seconds: float
    slowest_seconds: float
    click_seconds: float
    zoom_seconds: float
    complaints: int


_COLUMNS: Columns[Opened] = {
    "run": lambda row: row.run,
    "nodes": lambda row: f"{row.nodes:,}",
    "dots": lambda row: f"{row.dots:,}",
    "file": lambda row: format_bytes(row.bytes),
    "opens in": lambda row: f"{row.open_seconds:.2f} s",
    "slowest": lambda row: f"{row.slowest_seconds:.2f} s",
    "click": lambda row: f"{1000 * row.click_seconds:.0f} ms",
    "zoom": lambda row: f"{1000 * row.zoom_seconds:.0f} ms",
    "complaints": lambda row: str(row.complaints),
}


def bench_report(bench: Report) -> str:
    """Measure, write report.json and report.md, and return the page."""
    rows = []
    for folder in bench.runs:
        if not (folder / "report.html").exists():
            raise FolderError(f"{folder / 'report.html'} does not exist; run gscl-scale report first")
        with chromium() as browser:
            rows.append(_measure(browser, folder, bench.turns))
        bench.say(f"{folder} opens in {rows[-1].open_seconds:.2f} s")
    page = (
        "# The page in a browser\n\n"
        f"`report.html` of finished runs in headless Chromium without a network or a GPU, on {bench.machine}. "
        "*Opens in*: until it is loaded and the map is drawn; *click*: until the nearest nodes are listed; *zoom*: "
        "until the map is drawn again; *complaints* are messages of the console, errors and requests to a network. "
        f"`{bench.command}` makes this page:\n\n{table_of(rows, _COLUMNS, left=[0])}"
    )
    return bench.write(page, rows, {})


def _measure(browser: Browser, folder: Path, turns: int) -> Opened:
    path = folder / "report.html"
    times, complaints, dots = list[tuple[float, float, float]](), 0, 0
    for _ in range(turns):
        tab = browser.open(path)
        if not tab.run("!!document.getElementById('map')"):
            raise RunError(f"{path} has no map; run gscl-scale report again")
        tab.call("Page.bringToFront")  # a page in the background draws nothing
        times.append((tab.seconds, _click(tab), tab.run(_ZOOM) / 1000))
        dots = int(tab.run("nodes.x.length"))
        complaints += len(tab.complaints())
        tab.call("Page.close")
    opening, clicks, zooms = zip(*times, strict=True)
    nodes = Graph.open(Run.at(folder).graph).num_nodes
    open_s, click_s, zoom_s = (statistics.median(seconds) for seconds in (opening, clicks, zooms))
    return Opened(
        folder.name, nodes, dots, path.stat().st_size, open_s, max(opening), click_s, zoom_s, complaints
    )  # fmt: skip


def _click(tab: Tab) -> float:
    tab.run(_SHOW_MAP)
    x, y = tab.run(_FIRST_NODE)
    began = time.monotonic()
    tab.point(x, y, click=True)
    tab.wait(_IS_LISTED)
    return time.monotonic() - began
