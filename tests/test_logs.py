"""What is read of a log: lines of its kinds, and nothing else."""

import json

import pytest

from gscl_scale.run.log import read_curve, read_events

STEP = {"time": "2026-11-20T10:00:00.000+00:00", "stage": "train", "event": "step", "step": 0, "loss": 1.5}
DONE = {"time": "2026-11-20T10:00:01.000+00:00", "stage": "embed", "event": "done", "epoch": 3}


def written(path, *lines):
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def test_a_step_that_was_repeated_counts_as_it_was_last(tmp_path):
    log = written(tmp_path / "log", {**STEP, "step": 1}, STEP, {**STEP, "loss": 0.5}, DONE)
    assert [(step["step"], step["loss"]) for step in read_curve(log)] == [(0, 0.5), (1, 1.5)]
    assert read_events(log) == [DONE]


def test_a_loss_that_is_not_finite_or_missing_is_kept(tmp_path):
    log = written(tmp_path / "log", {**STEP, "loss": float("nan")}, {**STEP, "step": 1, "loss": None})
    assert [step["step"] for step in read_curve(log)] == [0, 1]


@pytest.mark.parametrize(
    "other",
    [
        {"loss": "1"}, {"loss": 10**400}, {"step": -1}, {"step_s": float("inf")}, {"per_level": [1.0, "2"]},
        {"peak_bytes": 1.5}, {"data_wait_s": -1.0},
    ],
)  # fmt: skip
def test_a_step_of_another_kind_is_passed_over(tmp_path, other):
    assert read_curve(written(tmp_path / "log", {**STEP, **other}, {**STEP, "step": 7}))[0]["step"] == 7


@pytest.mark.parametrize(
    "other", [{"epoch": 10**400}, {"epoch": "3"}, {"time": "noon"}, {"time": "2026-11-20T10:00:00"}, {"stage": 3}]
)
def test_an_event_of_another_kind_is_passed_over(tmp_path, other):
    assert read_events(written(tmp_path / "log", {**DONE, **other}, DONE, "{half", "[]")) == [DONE]


def test_there_is_nothing_to_read_of_a_log_that_is_not_there(tmp_path):
    assert (read_curve(tmp_path / "log"), read_events(tmp_path / "log")) == ([], [])
