import re
from pathlib import Path

import pytest

from gscl_scale.config.config import Config

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


PAGES = [
    ROOT / "README.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name not in ("notes", "results")),
]
NAMED = re.compile(r"`((?:gscl_scale|cluster|configs|docs|examples|tests|tools)/[\w./-]+)`")
LINK = re.compile(r"\]\((?!https?://)([\w./-]*)(?:#([\w-]+))?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_file_and_heading_that_a_page_names_exists(page):
    text = page.read_text()
    for path in NAMED.findall(text):
        assert (ROOT / path).exists(), path
    for path, heading in LINK.findall(text):
        target = page.parent / path if path else page
        assert target.exists(), path
        if heading:
            assert heading in headings(target), f"{path}#{heading}"


def headings(page):
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


def test_a_page_names_what_to_read_first_and_the_readme_leads_there():
    assert len(NAMED.findall((ROOT / "docs/code.md").read_text())) > 10
    assert "(docs/code.md)" in README


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_config_is_valid_and_begins_with_where_its_numbers_come_from(path, monkeypatch):
    monkeypatch.setenv("GSCL_DATA", "/data")
    Config.load(path)
    assert path.read_text().startswith("#")
    assert "Where the numbers come from" in path.read_text()
