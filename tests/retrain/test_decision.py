"""What becomes of the version of a night, by the ledger at that moment."""

from dataclasses import replace

import pytest

from gscl_scale.registry.ledger import State
from gscl_scale.retrain.decision import decide, promote_again

NOW = State(number=7, token=4, current="v2", promoted=("v1", "v2"), refused=("v3",), rolled_back=("v3",))


@pytest.mark.parametrize(
    ("state", "base", "refusal", "event", "reason"),
    [
        (NOW, "v2", "", "promoted", ""),
        (NOW, "v3", "", "candidate", "v2 became current in place of v3 while this night ran"),
        (replace(NOW, pinned=True), "v2", "", "candidate", "v2 is pinned"),
        (replace(NOW, pinned=True), "v2", "rank is 1", "refused", "rank is 1"),
        (NOW, "v3", "rank is 1", "refused", "rank is 1"),
        (State(), "", "", "promoted", ""),
    ],
)
def test_a_version_becomes_current_only_if_it_was_compared_with_the_current_one_and_none_is_pinned(
    state, base, refusal, event, reason
):
    change = decide(state, "v4", base, refusal, keep=3)
    assert (change["event"], change.get("reason", "")) == (event, reason)
    assert change.get("current") == ("v4" if event == "promoted" else None)
    assert ("v4" in change.get("candidates", ())) == (event == "candidate")
    assert ("v4" in change.get("refused", ())) == (event != "promoted")


def test_candidates_are_kept_as_long_as_refused_versions():
    state = State(current="v1", promoted=("v1",), pinned=True)
    for name in ("v2", "v3", "v4"):
        change = decide(state, name, "v1", "", keep=3)
        state = replace(state, refused=change["refused"], candidates=change["candidates"])
    assert state.candidates == state.refused == ("v3", "v4")


def test_a_candidate_is_promoted_later_unless_one_is_pinned_or_another_is_current_now():
    state = State(current="v1", promoted=("v1",), refused=("v2", "v3"), candidates=("v3",))
    change = promote_again(state, "v3", "v1", keep=3)
    assert change["current"] == "v3"
    assert (change["promoted"], change["refused"], change["candidates"]) == (("v1", "v3"), ("v2",), ())
    assert promote_again(replace(state, pinned=True), "v3", "v1", keep=3) is None
    assert promote_again(state, "v3", "v0", keep=3) is None
    assert promote_again(state, "v2", "v1", keep=3) is None  # refused by the gate
    assert promote_again(state, "v1", "v1", keep=3) is None  # current
