"""The anchors of every step, whatever size batches had before a restart."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gscl_scale.batches.schedule import Schedule

EPOCHS = 3


def test_steps_follow_each_other_through_whole_epochs():
    schedule = Schedule(num_anchors=10, batch_size=4)
    assert schedule.steps_per_epoch == 3
    assert [schedule.at(step) for step in range(7)] == [(0, 0), (0, 4), (0, 8), (1, 0), (1, 4), (1, 8), (2, 0)]
    assert schedule.end_of(2) == 6


def test_batches_of_another_size_go_on_where_the_others_ended():
    schedule = Schedule(num_anchors=10, batch_size=8, step=4, epoch=1, seen=4)
    assert schedule.steps_per_epoch == 2
    assert [schedule.at(step) for step in range(4, 8)] == [(1, 4), (2, 0), (2, 8), (3, 0)]
    assert schedule.end_of(3) == 7


@given(st.integers(1, 40), st.lists(st.tuples(st.integers(1, 50), st.integers(0, 9)), min_size=1, max_size=6))
def test_every_epoch_takes_each_anchor_once_however_often_the_size_changes(num_anchors, parts):
    step, (epoch, seen), places = 0, (0, 0), []
    parts.append((parts[-1][0], None))  # to the end
    for batch_size, steps in parts:
        schedule = Schedule(num_anchors, batch_size, step, epoch, seen)
        end = schedule.end_of(EPOCHS) if epoch < EPOCHS else step
        until = end if steps is None else min(end, step + steps)
        places += [schedule.at(number) for number in range(step, until)]
        epoch, seen = schedule.at(until)
        step = until
    assert (epoch, seen) == (EPOCHS, 0)
    assert len(places) == step
    for (before, first), (after, then) in pairwise(places):
        assert (after == before and first < then < num_anchors) or (after == before + 1 and then == 0)
    assert sorted({place[0] for place in places}) == list(range(EPOCHS))


@pytest.mark.parametrize("batch_size", [1, 3, 7, 10, 11])
def test_a_size_that_never_changes_gives_the_steps_of_a_division(batch_size):
    plain = Schedule(10, batch_size)
    for step in range(3 * plain.steps_per_epoch):
        epoch, within = divmod(step, plain.steps_per_epoch)
        assert plain.at(step) == (epoch, within * batch_size)
        resumed = Schedule(10, batch_size, step, *plain.at(step))
        assert [resumed.at(later) for later in range(step, 40)] == [plain.at(later) for later in range(step, 40)]
        assert resumed.end_of(5) == plain.end_of(5)
