"""The plans that docs/large_plan.md shows."""

import itertools
import re
import shlex

import pytest

from gscl_scale.planning.rates import REFERENCE
from tests.commands import cli
from tests.docs.pages import ROOT, blocks

_BLOCKS = blocks("docs/large_plan.md")
_SHOWN = [
    (command.text.removeprefix("$ gscl-scale "), printed.text)
    for command, printed in itertools.pairwise(_BLOCKS)
    if printed.language == "text"
]


def _cells(text):
    """The table without its times, which are those of a machine; and what comes last, without numbers of memory."""
    rows = [[cell.strip() for cell in line.split("│")[1:-2]] for line in text.splitlines() if line.startswith("│")]
    return rows, re.sub(r"\d+\.\d+", "X", text.splitlines()[-1])


@pytest.mark.parametrize(("command", "shown"), _SHOWN)
def test_the_plans_of_the_page_are_those_of_today(command, shown, monkeypatch):
    monkeypatch.setattr("gscl_scale.planning.measure.measure_rates", lambda: REFERENCE)
    printed = cli(*shlex.split(command), cwd=ROOT)
    assert printed.returncode == 0, printed.stderr
    assert printed.stdout.splitlines()[0] == shown.splitlines()[0]
    (ours, last), (theirs, last_printed) = _cells(shown), _cells(printed.stdout)
    assert len(ours) == 6
    for row, other in zip(ours, theirs, strict=True):
        assert len(row) == len(other) == 8
        for cell, of_today in zip(row, other, strict=True):
            numbers, others = (re.findall(r"[\d.]+", one.replace(",", "")) for one in (cell, of_today))
            assert list(map(float, numbers)) == pytest.approx(list(map(float, others)), rel=0.05), (cell, of_today)
    assert last == last_printed


def test_the_page_shows_three_plans():
    assert len(_SHOWN) == 3
