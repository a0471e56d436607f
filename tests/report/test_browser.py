"""The page as a reader meets it, in a headless Chromium."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gscl_scale.bench.browser import CHROMIUM, Browser, Tab, chromium
from gscl_scale.config.config import Config
from gscl_scale.graph.sources.node_cells import NodeCells
from gscl_scale.report.node_map import NodeMap
from gscl_scale.report.page import write_report
from gscl_scale.report.run_data import RunData
from tests.report.made import HOSTILE_IDS, clustered, graph_of, page_of
from tests.report.test_report import CURVE, metrics, render, statistics
from tests.slow import slow

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium, chromium-browser or google-chrome")

PARTS = ["colour", "id", "in", "out", "whole", "canvas"]
NODES, CLASSES = 400, ["apples", "pears", "<b>plums</b>"]


def found(name: str = "made up") -> dict[str, Any]:
    return {"metrics": metrics(), "statistics": {**statistics(), "name": name}, "curve": CURVE}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, NodeMap, list[str], Any]:
    """A page of 400 nodes in three classes, some of whose ids are hostile."""
    folder = tmp_path_factory.mktemp("page")
    vectors, labels = clustered(NODES, 3)
    ids = [*HOSTILE_IDS, *(f"node-{number}" for number in range(len(HOSTILE_IDS), NODES))]
    graph = graph_of(folder / "graph", ids, [CLASSES[label] for label in labels])
    drawn = page_of(folder / "report.html", graph, vectors, found())
    return folder / "report.html", drawn, ids, labels


@pytest.fixture
def tab(browser: Browser, page: Any) -> Tab:
    return browser.open(page[0])


def press(tab: Tab, key: str) -> None:
    """Press and release a key."""
    text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
    code = {"Enter": 13, "Tab": 9, "Escape": 27}.get(key, 0)
    tab.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, windowsVirtualKeyCode=code)
    tab.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)


def print_pdf(tab: Tab, path: Path) -> None:
    printed = tab.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)
    path.write_bytes(base64.b64decode(printed["data"]))


def shown_colours(tab: Tab) -> list[int]:
    """How many pixels the map has drawn, and in how many colours that are quite covered."""
    return list(
        tab.run(
            "(() => { const c = document.querySelector('canvas');"
            "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0; const s = new Set();"
            "for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200)"
            " { n++; s.add([d[i] >> 3, d[i + 1] >> 3, d[i + 2] >> 3].join()); } return [n, s.size]; })()"
        )
    )


def listed(tab: Tab) -> list[str]:
    tab.wait("document.querySelectorAll('[data-part=chosen] li').length > 0")
    return list(tab.run("[...document.querySelectorAll('[data-part=chosen] li .id')].map(e => e.textContent)"))


def title(tab: Tab) -> str:
    return str(tab.run("document.querySelector('[data-part=chosen] h3').textContent"))


def said(tab: Tab) -> str:
    return str(tab.run("document.querySelector('[data-part=said]').textContent"))


def find_embeddings(tab: Tab, node: int) -> tuple[float, float]:
    """Where a node is in the window, once the map is in view."""
    tab.run("document.querySelector('canvas').scrollIntoView({block: 'center'})")
    x, y = tab.run(
        f"(() => {{ const b = canvas.getBoundingClientRect(), [x, y] = toScreen({node});"
        "return [x + b.left, y + b.top]; })()"
    )
    return x, y


def visible_node(tab: Tab) -> int:
    """A node with an ordinary id that no other one covers."""
    return int(tab.run(f"[...nodes.x.keys()].find(n => n >= {len(HOSTILE_IDS)} && nodeAt(...toScreen(n)) === n)"))


def ids_nearest(page: Any, node: int) -> list[str]:
    _, drawn, ids, _ = page
    return [ids[neighbour] for neighbour in drawn.nearest[node]]


@pytest.mark.parametrize(("dark", "width"), [(False, 400), (True, 1200)])
def test_the_page_opens_without_complaint_fits_draws_every_class_and_prints_its_map(
    browser: Browser, page: Any, tmp_path: Path, dark: bool, width: int
) -> None:
    tab = browser.open(page[0], dark=dark, width=width, height=800)
    pixels, colours = shown_colours(tab)
    assert pixels > NODES
    assert colours >= 3
    assert tab.complaints() == []
    background = tab.run("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", background))) < 80) == dark
    assert tab.run("document.documentElement.scrollWidth") <= width
    print_pdf(tab, tmp_path / "page.pdf")
    content = (tmp_path / "page.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert re.search(rb"/Subtype\s*/Image", content)


def test_the_policy_of_the_page_forbids_any_request_and_any_other_script(tab: Tab) -> None:
    assert tab.run("fetch('data:text/plain,x').then(() => 'answered', () => 'refused')") == "refused"
    tab.run("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))")
    assert tab.run("window.ran") is None


def test_pointing_at_a_node_tells_its_id_class_and_degree(tab: Tab, page: Any) -> None:
    _, _, ids, labels = page
    node = visible_node(tab)
    tab.point(*find_embeddings(tab, node))
    tip = tab.run("[...document.querySelector('[data-part=tip]').querySelectorAll('.id,dd')].map(e => e.textContent)")
    assert tip[:3] == [ids[node], CLASSES[labels[node]], "2"]
    tab.point(2, 2)
    assert tab.run("document.querySelector('[data-part=tip]').hidden")


def test_a_click_lists_the_nearest_nodes_that_python_finds_and_each_of_them_selects(tab: Tab, page: Any) -> None:
    node = visible_node(tab)
    tab.point(*find_embeddings(tab, node), click=True)
    assert listed(tab) == ids_nearest(page, node)
    cosines = tab.run("[...document.querySelectorAll('.cosine')].map(e => Number(e.textContent))")
    assert np.allclose(cosines, page[1].cosines[node], atol=6e-4)
    other = int(page[1].nearest[node][3])
    tab.run("document.querySelectorAll('[data-part=chosen] li button')[3].click()")
    assert title(tab) == page[2][other]
    assert listed(tab) == ids_nearest(page, other)


def search_for(tab: Tab, text: str) -> None:
    tab.run("{ const e = document.querySelector('[data-part=id]'); e.value = ''; e.focus(); }")
    tab.call("Input.insertText", text=text)
    press(tab, "Enter")


def test_the_search_finds_every_id_takes_none_for_html_and_tells_which_is_not_there(tab: Tab, page: Any) -> None:
    for number, hostile in enumerate(HOSTILE_IDS):
        search_for(tab, hostile)
        tab.wait(f"document.querySelector('[data-part=chosen] h3')?.textContent === {json.dumps(hostile)}")
        assert listed(tab) == ids_nearest(page, number)
        assert f"Selected {hostile}, class" in said(tab)
        assert tab.run("document.title") != "owned"
    search_for(tab, "nobody")
    assert said(tab) == "No node with the id nobody is on the map."
    assert tab.complaints() == []


def test_everything_can_be_done_with_keys(tab: Tab) -> None:
    tab.run("document.querySelector('canvas').focus()")
    before = tab.run("JSON.stringify(view)")
    for key in ("+", "ArrowRight", "ArrowDown"):
        press(tab, key)
        after = tab.run("JSON.stringify(view)")
        assert after != before
        before = after
    press(tab, "0")
    assert json.loads(tab.run("JSON.stringify(view)")) == {"x": 0.5, "y": 0.5, "zoom": 1}
    press(tab, "Enter")
    assert listed(tab)
    assert said(tab).startswith("Selected ")
    press(tab, "Escape")
    tab.wait("document.querySelectorAll('[data-part=chosen] li').length === 0")
    reached = []
    tab.run("document.querySelector('[data-part=colour]').focus()")
    for _ in range(20):
        reached.append(tab.run("document.activeElement.dataset.part || document.activeElement.textContent"))
        press(tab, "Tab")
    assert [name for name in reached if name in PARTS][: len(PARTS)] == PARTS
    assert any(name.startswith("apples") for name in reached)


def test_the_focus_stays_where_keys_have_replaced_what_had_it(tab: Tab, page: Any) -> None:
    node = visible_node(tab)
    tab.point(*find_embeddings(tab, node), click=True)
    other = int(page[1].nearest[node][0])
    assert listed(tab)
    tab.run("document.querySelector('[data-part=chosen] li button').focus()")
    press(tab, "Enter")
    tab.wait(f"document.querySelector('[data-part=chosen] h3').textContent === {json.dumps(page[2][other])}")
    assert tab.run("document.activeElement === document.querySelector('[data-part=chosen] h3')")
    tab.run("[...document.querySelectorAll('.legend .whole')].at(-1).focus()")
    press(tab, "Enter")
    assert tab.run("document.activeElement.textContent") == "none"


def test_the_legend_hides_a_class_and_nodes_can_be_coloured_otherwise(tab: Tab, page: Any) -> None:
    whole, _ = shown_colours(tab)
    tab.run("document.querySelector('.legend button').click()")
    tab.wait("canvas.dataset.drawn === '0' && !!document.querySelector('.legend [aria-pressed=false]')")
    tab.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert shown_colours(tab)[0] < 0.9 * whole
    for number, name in enumerate(
        tab.run("[...document.querySelectorAll('[data-part=colour] option')].map(e => e.text)")
    ):
        tab.run(
            f"(() => {{ const s = document.querySelector('[data-part=colour]'); s.value = '{number}';"
            "s.dispatchEvent(new Event('change')); })()"
        )
        tab.wait(f"canvas.dataset.drawn === '{number}'")
        assert shown_colours(tab)[0] > NODES, name
    assert tab.complaints() == []


SAME = np.ones((50, 4), np.float32)


@pytest.mark.parametrize(
    ("vectors", "classes"),
    [(2, None), (2, ["one", "one"]), (3, ["one", None, None]), (12, None), (SAME, None)],
    ids=["two", "two of a class", "one of three with a class", "twelve", "fifty that are the same"],
)
def test_maps_of_hardly_anything_are_drawn(browser: Browser, tmp_path: Path, vectors: Any, classes: Any) -> None:
    if isinstance(vectors, int):
        vectors = np.random.default_rng(0).normal(size=(vectors, 3)).astype(np.float32)
    num_nodes = len(vectors)
    graph = graph_of(tmp_path / "graph", list(range(num_nodes)), classes)
    drawn = page_of(tmp_path / "report.html", graph, vectors, found())
    assert np.isfinite(drawn.places).all()
    tab = browser.open(tmp_path / "report.html")
    assert shown_colours(tab)[0] > 0
    tab.run("select(1)")
    assert len(listed(tab)) == min(10, num_nodes - 1)
    assert tab.complaints() == []


@pytest.mark.slow
def test_a_hundred_thousand_nodes_fit_and_can_be_walked_on(browser: Browser, tmp_path: Path) -> None:
    count = 100_000
    draw = np.random.default_rng(0)
    graph = graph_of(tmp_path / "graph", list(range(count)), [f"class {number % 40}" for number in range(count)])
    drawn = NodeMap(
        np.arange(count),
        draw.random((count, 2), np.float32),
        draw.integers(0, count, (count, 10), np.int32),
        draw.random((count, 10), np.float32),
    )
    write_report(tmp_path / "report.html", RunData(**{**found(), "graph": graph, "nodes": drawn}))
    assert (tmp_path / "report.html").stat().st_size < 12e6
    tab = browser.open(tmp_path / "report.html")
    node = visible_node(tab)
    tab.point(*find_embeddings(tab, node), click=True)
    assert listed(tab) == [str(other) for other in drawn.nearest[node]]
    assert tab.complaints() == []


SIZES = np.array([np.nan if number == 3 else number / 4 for number in range(60)])
TOWNS = [None if number == 3 else f"<i>town</i> {number % 3}" for number in range(60)]
DAYS = np.arange(60) + 19724.0


@pytest.fixture(scope="module")
def own_columns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of 60 nodes with the user's own columns."""
    folder = tmp_path_factory.mktemp("own")
    vectors, labels = clustered(60, 3)
    graph = graph_of(folder / "graph", list(range(60)), [CLASSES[label] for label in labels])
    cells = [
        NodeCells("size", numbers=SIZES),
        NodeCells("<b>town</b>", text=pa.array(TOWNS, pa.large_string())),
        NodeCells("since", numbers=DAYS, dated=True),
    ]
    page_of(folder / "report.html", graph, vectors, {**found(), "cells": cells})
    return folder / "report.html"


def own_facts(tab: Tab) -> list[str]:
    lists = "document.querySelectorAll('[data-part=chosen] dl')"
    return list(tab.run(f"[...{lists}[1].querySelectorAll('dt, dd')].map(e => e.textContent)"))


def test_the_card_of_a_node_has_the_users_columns_and_leaves_out_what_is_missing(
    browser: Browser, own_columns: Path
) -> None:
    tab = browser.open(own_columns)
    tab.run("select(5)")
    listed(tab)
    assert own_facts(tab) == ["size", "1.25", "<b>town</b>", "<i>town</i> 2", "since", "2024-01-07"]
    tab.run("select(3)")
    tab.wait("document.querySelector('[data-part=chosen] h3').textContent === '3'")
    assert own_facts(tab) == ["since", "2024-01-05"]
    assert tab.complaints() == []


def test_the_map_is_coloured_by_every_column_of_the_user(browser: Browser, own_columns: Path) -> None:
    tab = browser.open(own_columns)
    names = tab.run("ABOUT.modes.map(mode => mode.name)")
    assert names[-3:] == ["size", "<b>town</b>", "since"]
    legends = {}
    for number, name in list(enumerate(names))[-3:]:
        tab.run(f"colourBy({number})")
        tab.wait(f"canvas.dataset.drawn === '{number}'")
        assert shown_colours(tab)[1] >= 3, name
        legends[name] = tab.run("document.querySelector('[data-part=legend]').textContent")
    assert legends["size"] == "size014.75"
    assert legends["since"] == "since2024-01-022024-03-01"
    assert legends["<b>town</b>"] == "<i>town</i> 120<i>town</i> 220<i>town</i> 019missing1allnone"
    tab.run("colourBy(ABOUT.modes.length - 2)")
    tab.run("document.querySelectorAll('[data-part=legend] button')[3].click()")
    assert tab.run("[3, 4].map(isShown)") == [False, True]


def test_on_a_phone_the_card_is_a_sheet_at_the_bottom_that_hides_neither_the_node_nor_the_way_back(
    browser: Browser, own_columns: Path
) -> None:
    tab = browser.open(own_columns, width=360, height=740)
    card = "document.querySelector('[data-part=chosen]')"
    tab.run("canvas.scrollIntoView({block: 'end'})")
    tab.run("select(7)")
    listed(tab)
    style = f"getComputedStyle({card})"
    assert tab.run(f"[{style}.position, {card}.getBoundingClientRect().bottom]") == ["fixed", 740]
    assert tab.run(f"toScreen(7)[1] + canvas.getBoundingClientRect().top < {card}.getBoundingClientRect().top")
    tab.run("document.querySelector('.close').focus()")
    press(tab, "Enter")
    tab.wait(f"{card}.dataset.open === 'no'")
    assert tab.run(f"{style}.position") != "fixed"
    assert tab.run("document.activeElement === canvas")
    tab.run("select(7)")
    listed(tab)
    tab.run("document.querySelector('.chosen li button').focus()")
    press(tab, "Escape")
    tab.wait(f"{card}.dataset.open === 'no'")


def test_charts_show_their_values_at_the_pointer_and_by_keys(browser: Browser, own_columns: Path) -> None:
    tab = browser.open(own_columns)
    chart = "document.querySelectorAll('[data-chart]')[1]"
    x, y, wide = tab.run(
        f"(() => {{ {chart}.scrollIntoView({{block: 'center', behavior: 'instant'}});"
        f"const b = {chart}.getBoundingClientRect(); return [b.left, b.top + b.height / 2, b.width]; }})()"
    )
    tab.point(x + wide / 2, y)
    tip = f"{chart}.querySelector('.tip')"
    words = tab.run(f"{tip}.textContent")
    step, value = re.fullmatch(r"step ([\d,]+)loss ([\d.]+)", words).groups()  # type: ignore[union-attr]
    assert 400 < int(step) < 600
    assert float(value) == pytest.approx(2 + 1 / int(step), rel=1e-3)
    tab.run(f"{chart}.focus()")
    for key, first in (("Home", 1), ("ArrowRight", 2), ("End", 300)):
        press(tab, key)
        assert tab.run(f"{chart}.getAttribute('aria-valuenow')") == str(first)
    assert tab.run(f"{chart}.getAttribute('aria-valuetext')").startswith("step 99")
    press(tab, "Escape")
    assert tab.run(f"{tip}.style.display") == "none"
    assert tab.complaints() == []


def test_the_places_of_a_chart_are_on_its_line(browser: Browser, own_columns: Path) -> None:
    """The picture's own path goes through the dots that mark values."""
    tab = browser.open(own_columns)
    apart = tab.run(
        "(() => { const chart = document.querySelectorAll('[data-chart]')[1], data = JSON.parse(chart.dataset.chart);"
        "const lines = [...chart.querySelector('svg').querySelectorAll('path')].filter(p => p.getTotalLength() > 100);"
        "const dots = [10, 150, 290].map(i => [data.x[i], data.series[0].y[i]]);"
        "return dots.map(([x, y]) => Math.min(...lines.map(line => { let best = 1e9;"
        "for (let at = 0; at < line.getTotalLength(); at += 0.5) { const p = line.getPointAtLength(at);"
        "best = Math.min(best, Math.hypot(p.x - x, p.y - y)); } return best; }))); })()"
    )
    assert max(apart) < 0.6


def test_the_settings_are_copied_as_a_config_file_that_is_read_again(browser: Browser, tmp_path: Path) -> None:
    config = Config.parse({"graph": {"source": "digits"}, "train": {"epochs": 7}})
    render(tmp_path / "report.html", record={"config": config.dump()})
    tab = browser.open(tmp_path / "report.html")
    tab.run("document.querySelector('[data-copy]').closest('details').open = true")
    tab.run("document.addEventListener('copy', () => { window.copied = String(getSelection()); })")
    tab.run("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    tab.run("document.querySelector('[data-copy]').click()")
    tab.wait("document.querySelector('.copy [role=status]').textContent === 'Copied.'")
    (tmp_path / "again.yaml").write_text(tab.run("window.copied"))
    assert Config.load(tmp_path / "again.yaml").dump() == config.dump()
    tab.run("navigator.clipboard.writeText = async () => { throw new Error('not allowed'); }")
    tab.run("window.copied = ''; document.querySelector('[data-copy]').click()")
    tab.wait("getSelection().toString().includes('epochs: 7')")


def test_the_table_of_contents_leads_to_every_section(tab: Tab) -> None:
    links = tab.run("[...document.querySelectorAll('.contents a')].map(a => a.hash.slice(1))")
    assert links == tab.run("[...document.querySelectorAll('main > section')].map(s => s.id)")
    assert links[0] == "part-map"


@pytest.mark.parametrize(("width", "height"), [(1200, 800), *slow((1440, 900), (360, 740))])
def test_the_map_is_on_the_first_screen(browser: Browser, page: Any, width: int, height: int) -> None:
    tab = browser.open(page[0], width=width, height=height)
    top, bottom = tab.run("(() => { const b = canvas.getBoundingClientRect(); return [b.top, b.bottom]; })()")
    assert top < 0.55 * height
    assert min(bottom, height) - top > 0.4 * height
