"""Behavior that a redesign must not change: every value in golden.json is measured again and compared.

After a change of behavior that is meant: python -m tests.golden.write, and commit golden.json.
"""

import json

import pytest

from tests.golden.cases import CASES
from tests.golden.compare import GOLDEN, as_text, differences, shortened
from tests.golden.write import measured

PINNED = json.loads(GOLDEN.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CASES)
def test_behavior_is_as_it_was_pinned(name, tmp_path):
    found = differences(PINNED.get(name, {}), measured(name, tmp_path), name)
    if found:
        again = f"if this is meant: python -m tests.golden.write '{name}'"
        pytest.fail("\n".join([f"{name}: {len(found)} values differ", *shortened(found, 40), again]), pytrace=False)


def test_every_pinned_case_is_measured_and_the_file_is_as_it_is_written():
    assert list(PINNED) == list(CASES)
    assert GOLDEN.read_text(encoding="utf-8") == as_text(PINNED) + "\n"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ({"a": {"b": "x"}}, {"a": {"b": "y"}}, ['case / a / b: was "x", is now "y"']),
        ({"a": [1, 2]}, {"a": [1, 3, 4]}, ["case / a[1]: was 2, is now 3", "case / a[2]: was nothing, is now 4"]),
        ({"a": 1}, {"a": 1.0}, ["case / a: was 1, is now 1.0"]),
        ({"a": 1}, {}, ["case / a: was 1, is now nothing"]),
        ({"losses": [2.0]}, {"losses": [2.0001]}, []),
        ({"losses": [2.0]}, {"losses": [2.001]}, ["case / losses[0]: was 2.0, is now 2.001"]),
        ({"a": [2.0]}, {"a": [2.0001]}, ["case / a[0]: was 2.0, is now 2.0001"]),
    ],
)
def test_a_difference_has_a_name_and_both_values(old, new, told):
    assert differences(old, new, "case") == told


def test_losses_that_hang_on_the_rounding_of_a_processor_have_a_tolerance_of_their_own():
    assert not differences({"losses": [2.0]}, {"losses": [2.005]}, "curve: autossl")
    assert differences({"losses": [2.0]}, {"losses": [2.01]}, "curve: autossl")
    assert differences({"losses": [2.0]}, {"losses": [2.005]}, "curve: dgi")
    assert not differences({"gradient norms": [2.0]}, {"gradient norms": [2.01]}, "curve: autossl")
    assert differences({"gradient norms": [2.0]}, {"gradient norms": [2.01]}, "curve: dgi")
