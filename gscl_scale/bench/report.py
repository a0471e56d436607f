"""`bench report`: how the page of a run opens and answers in a headless Chromium, without a network."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gscl_scale.bench.browser import Browser, Tab, chromium
from gscl_scale.errors import FolderError, RunError
from gscl_scale.graph.graph import Graph
from gscl_scale.io.atomic import write_text
from gscl_scale.io.json import write_json
from gscl_scale.machine import processor_name, usable_cores
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.text import in_words, table
from gscl_scale.version import __version__

_SEES = "document.querySelector('canvas').scrollIntoView({block: 'center'})"
_PLACE = "(() => { const b = canvas.getBoundingClientRect(), [x, y] = toScreen(0); return [x + b.left, y + b.top]; })()"
_LISTED = "document.querySelectorAll('[data-part=chosen] li').length > 0"
_ZOOM = (
    "new Promise(done => { const began = performance.now();"
    "canvas.dispatchEvent(new KeyboardEvent('keydown', {key: '+', bubbles: true}));"
    "requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began))); })"
)


@dataclass(frozen=True)
class ReportBench:
    """Which finished runs, how often each page is opened, and what to type to measure this again."""

    runs: Sequence[Path]
    turns: int
    command: str = ""


@dataclass(frozen=True)
class Opened:
    """A page in the browser; times are medians of the turns.

    dots             of the map
    open_seconds     from the request until the page is loaded and its map drawn
    slowest_seconds  the longest of the turns
    click_seconds    from a click on a node until its nearest nodes are listed
    zoom_seconds     until the map is drawn again
    complaints       what the console or the network had to say
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


def bench_report(asked: ReportBench, out: Path, console: Console) -> str:
    """Measure, write report.json and report.md into `out`, and return the Markdown."""
    out.mkdir(parents=True, exist_ok=True)
    opened = []
    for folder in asked.runs:
        if not (folder / "report.html").exists():
            raise FolderError(f"{folder / 'report.html'} does not exist; run gscl-scale report first")
        with chromium() as browser:
            opened.append(_measure(browser, folder, asked.turns))
        console.say(f"bench report: {folder} opens in {opened[-1].open_seconds:.2f} s")
    setting = {
        "command": asked.command, "turns": asked.turns, "version": __version__,
        "cores": len(usable_cores()), "processor": processor_name(),
    }  # fmt: skip
    text = _page(opened, asked)
    write_json(out / "report.json", {"setting": setting, "rows": [asdict(one) for one in opened]})
    write_text(out / "report.md", text + "\n")
    return text


def _measure(browser: Browser, folder: Path, turns: int) -> Opened:
    path = folder / "report.html"
    times, complaints, dots = list[tuple[float, float, float]](), 0, 0
    for _ in range(turns):
        tab = browser.open(path)
        if not tab.run("!!document.getElementById('map')"):
            raise RunError(f"{path} has no map; run gscl-scale report again")
        tab.call("Page.bringToFront")  # pages that are not seen draw nothing
        times.append((tab.seconds, _click(tab), tab.run(_ZOOM) / 1000))
        dots = int(tab.run("nodes.x.length"))
        complaints += len(tab.complaints())
        tab.call("Page.close")
    opening, clicks, zooms = zip(*times, strict=True)
    return Opened(
        run=folder.name,
        nodes=Graph.open(Run.at(folder).graph).num_nodes,
        dots=dots,
        bytes=path.stat().st_size,
        open_seconds=statistics.median(opening),
        slowest_seconds=max(opening),
        click_seconds=statistics.median(clicks),
        zoom_seconds=statistics.median(zooms),
        complaints=complaints,
    )


def _click(tab: Tab) -> float:
    tab.run(_SEES)
    x, y = tab.run(_PLACE)
    began = time.monotonic()
    tab.point(x, y, click=True)
    tab.wait(_LISTED)
    return time.monotonic() - began


def _page(opened: list[Opened], asked: ReportBench) -> str:
    rows = [
        [
            one.run,
            f"{one.nodes:,}",
            f"{one.dots:,}",
            in_words(one.bytes),
            f"{one.open_seconds:.2f} s",
            f"{one.slowest_seconds:.2f} s",
            f"{1000 * one.click_seconds:.0f} ms",
            f"{1000 * one.zoom_seconds:.0f} ms",
            str(one.complaints),
        ]
        for one in opened
    ]
    heads = ["run", "nodes", "dots", "file", "opens in", "slowest", "click", "zoom", "complaints"]
    return (
        "# The page in a browser\n\n"
        "`report.html` of finished runs in headless Chromium without a network or a GPU, opened "
        f"{asked.turns} times each; {len(usable_cores())} cores of {processor_name()}. *Opens in*: until it is loaded "
        "and the map is drawn, the median; *click*: until the nearest nodes are listed; *zoom*: until the map is drawn "
        f"again; *complaints* of the console or the network. `{asked.command}` makes this page:\n\n"
        f"{table(heads, rows, left=(0,))}"
    )
