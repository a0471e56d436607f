"""docs/tutorial.md, from its first block to its last, in an empty folder."""

import sys

import pytest

from tests.docs.pages import assert_alike, blocks
from tests.docs.world import BIN, bash

PAGE = "docs/tutorial.md"


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
