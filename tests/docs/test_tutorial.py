"""The tutorials, from their first block to their last, in an empty folder."""

import contextlib
import io
import sys

import pytest

from tests.docs.pages import assert_alike, blocks
from tests.docs.world import BIN, bash

PAGE, NOTEBOOK = "docs/tutorial.md", "docs/notebook.md"
FOLLOWED = (PAGE, NOTEBOOK)


def follow(folder):
    """[(what the page shows, what is printed)] of every step, as a reader would take it."""
    told, printed = [], ""
    for block in blocks(PAGE):
        if block.language == "python":
            printed = bash(f"exec {sys.executable} - <<'END'\n{block.text}END\n", folder)
        elif block.language == "yaml":
            (folder / "shop.yaml").write_text(block.text)
        elif block.language == "console":
            told += [(shown, bash(command, folder)) for command, shown in block.steps()]
        else:
            told.append((block.text, printed))
    return told


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_tutorial_can_be_followed_as_it_is_written(tmp_path):
    (tmp_path / "reader").mkdir()
    assert (BIN / "gscl-scale").exists()
    for shown, printed in follow(tmp_path / "reader"):
        assert_alike(shown, printed)


def test_the_cells_of_the_notebook_run_one_after_the_other(tmp_path):
    cells, printed, given = blocks(NOTEBOOK), io.StringIO(), {}
    assert {cell.language for cell in cells} == {"python"}
    with contextlib.chdir(tmp_path), contextlib.redirect_stdout(printed):
        for cell in cells:
            exec(compile(cell.text, cell.name, "exec"), given)
    first, *_, last = printed.getvalue().splitlines()
    width = first.rpartition(" ")[2]
    assert (first, last) == (f"(77, {width}", f"(78, {width}")
