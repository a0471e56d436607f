"""The site: it is built without a warning, has what the reference promises, and loads nothing from elsewhere."""

import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gscl_scale
from tests.docs.pages import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"']?(https?:)?//[^\"'> ]+[^>]*>")
MAY = ("rel=canonical", 'rel="canonical"')


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    assert importlib.util.find_spec("mkdocs"), "pip install -e '.[docs]'"
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_public_name_and_method_is_described(site):
    text = (site / "reference/python.html").read_text()
    for name in gscl_scale.__all__:
        public = getattr(gscl_scale, name)
        assert re.search(rf'id="?gscl_scale\.{name}"?[ >]', text), name
        for method, member in vars(public).items() if inspect.isclass(public) else ():
            if inspect.isfunction(member) and not method.startswith("_"):
                assert re.search(rf'id="?gscl_scale\.{name}\.{method}"?[ >]', text), f"{name}.{method}"


def test_every_page_of_docs_is_a_page_of_the_site(site):
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    # docs/results.md is made of notes, and of a page that `make results` leaves beside them
    drafts = {page for page in pages if page.parent == Path("results/notes") or page == Path("results/results.html")}
    assert [page.as_posix() for page in pages - drafts if not (site / page).exists()] == []


def test_it_loads_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        for tag in LOADED.finditer(page.read_text()):
            assert any(word in tag[0] for word in MAY), f"{page}: {tag[0]}"
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//", style.read_text()), style
