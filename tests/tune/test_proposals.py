import threading
from types import SimpleNamespace

import pytest

from gscl_scale.config.config import Config
from gscl_scale.runtime.console import Console
from gscl_scale.studies.tune.proposals import EarlyStopping, propose
from gscl_scale.studies.tune.recorder import Recorder
from gscl_scale.studies.tune.records import Book, Trial
from gscl_scale.studies.tune.space import Choice, Range, points_of

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")

SPACE = {"model.width": Choice((8, 16, 256)), "train.learning_rate": Range(1e-4, 1e-1, log=True)}


def proposed(folder):
    return propose(SPACE, Config(), Book(folder))


def settings(width, rate=1e-3):
    return {"model.width": width, "train.learning_rate": rate}


def test_the_first_trial_is_as_the_config_and_the_seed_decides_the_others(tmp_path):
    proposers = [proposed(tmp_path) for _ in range(2)]
    one, other = ([proposer.suggest(str(n)) for n in range(4)] for proposer in proposers)
    assert one == other
    assert one[0] == {"number": 1, "settings": settings(256)}
    assert [each["number"] for each in one] == [1, 2, 3, 4]
    assert len({str(each["settings"]) for each in one}) == 4


def test_unfinished_trials_come_first_with_their_numbers_and_ended_ones_are_known(tmp_path):
    book = Book(tmp_path)
    book.end(Trial(1, settings(8), "finished", 0.9))
    book.note(Trial(2, settings(16, 0.01)))
    book.end(Trial(3, settings(8), "stopped", 0.5, validations=[(10, 0.4), (20, 0.5)]))
    book.end(Trial(4, settings(8), "failed", reason="it was too hot"))
    book.note(Trial(5, settings(8, 0.02)))
    proposer = proposed(tmp_path)
    suggested = [proposer.suggest(str(n)) for n in range(3)]
    assert suggested[:2] == [
        {"number": 2, "settings": settings(16, 0.01)},
        {"number": 5, "settings": settings(8, 0.02)},
    ]
    assert suggested[2]["number"] == 6
    known = [trial for trial in proposer.study.trials if trial.state.is_finished()]
    assert [(trial.state.name, trial.value) for trial in known] == [("COMPLETE", 0.9), ("PRUNED", 0.5), ("FAIL", None)]


def test_what_was_drawn_before_a_stop_is_not_drawn_again(tmp_path):
    book, drawn = Book(tmp_path), proposed(tmp_path)
    for number in (1, 2, 3):
        book.note(Trial(number, drawn.suggest(str(number))["settings"]))
    again = proposed(tmp_path)  # no trial had ended
    suggested = [again.suggest(str(number))["settings"] for number in range(4)]
    rates = [each["train.learning_rate"] for each in suggested]
    assert len(set(rates)) == 4


def test_settings_that_can_be_counted_are_tried_once_each(tmp_path):
    space = {"model.width": Choice((8, 16, 256)), "train.epochs": Range(2, 5), "model.bias": Choice((True, False))}
    book = Book(tmp_path)
    book.end(Trial(1, {"model.width": 8, "train.epochs": 2, "model.bias": True}, "finished", 0.9))
    book.note(Trial(2, {"model.width": 8, "train.epochs": 3, "model.bias": True}))
    suggested = []
    proposer = propose(space, Config(), book)
    for number in range(2, 25):
        suggested.append(proposer.suggest(str(number)))
        proposer.on_trial_complete(str(number), {"accuracy": 0.5, "ended": "finished"})
    assert [each["number"] for each in suggested] == list(range(2, 25))
    had = {tuple(each["settings"].values()) for each in suggested} | {(8, 2, True)}
    assert len(had) == len(points_of(space)) == 24
    completed = [trial for trial in proposer.study.trials if trial.state.name == "COMPLETE"]
    assert len(completed) == 24  # those that were proposed again are of no account
    assert not [trial for trial in proposer.study.trials if trial.state.name == "RUNNING"]


def test_only_finished_trials_count_by_their_accuracy(tmp_path):
    proposer = proposed(tmp_path)
    results = {
        "COMPLETE": {"accuracy": 0.7, "ended": "finished"},
        "PRUNED": {"accuracy": 0.7},
        "FAIL": {"accuracy": float("nan"), "ended": "failed"},
    }
    for state, result in results.items():
        proposer.suggest(state)
        proposer.on_trial_result(state, {"accuracy": 0.6, "epoch": 1})
        proposer.on_trial_complete(state, result)
    proposer.suggest("lost")
    proposer.on_trial_complete("lost", error=True)
    assert [trial.state.name for trial in proposer.study.trials] == [*results, "FAIL"]
    assert proposer.study.trials[1].value == 0.6


def test_validations_that_a_trial_repeats_after_its_checkpoint_are_told_once(tmp_path):
    proposer = proposed(tmp_path)
    proposer.suggest("killed")
    for epoch in (1, 2, 1, 2, 3):  # Optuna warns of a step that it knows
        proposer.on_trial_result("killed", {"accuracy": epoch / 10, "epoch": epoch})
    assert proposer.study.trials[0].intermediate_values == {1: 0.1, 2: 0.2, 3: 0.3}


def test_the_scheduler_compares_with_trials_of_earlier_attempts():
    known = [Trial(n, {}, "finished", 0.9, validations=[(20, 0.8), (50, 0.85)]) for n in (1, 2)]
    for earlier, decision in ((known, "STOP"), ([], "CONTINUE")):
        scheduler, trial = EarlyStopping(earlier, []), SimpleNamespace(trial_id="new", config={"number": 3})
        scheduler.on_trial_add(None, trial)
        assert scheduler.on_trial_result(None, trial, {"progress": 10, "accuracy": 0.1}) == "CONTINUE"
        assert scheduler.on_trial_result(None, trial, {"progress": 20, "accuracy": 0.1}) == decision


def test_a_trial_that_goes_on_sets_no_mark_with_its_later_figures_where_it_has_passed():
    going_on = Trial(1, {}, validations=[(20.0, 0.3), (40.0, 0.35)])
    decisions = []
    for unfinished in ([going_on], []):
        scheduler = EarlyStopping([], unfinished)
        first, other, third = (SimpleNamespace(trial_id=f"t{n}", config={"number": n}) for n in (1, 2, 3))
        for trial in (first, other, third):
            scheduler.on_trial_add(None, trial)
        scheduler.on_trial_result(None, first, {"progress": 70, "accuracy": 0.9})
        scheduler.on_trial_result(None, other, {"progress": 40, "accuracy": 0.3})
        decisions.append(scheduler.on_trial_result(None, third, {"progress": 40, "accuracy": 0.5}))
    assert decisions == ["CONTINUE", "STOP"]


def test_how_a_trial_goes_is_noted_and_goes_on_from_there(tmp_path):
    values = {"graph": {"source": "synthetic", "preset": "tiny"}}
    trial = SimpleNamespace(config={"number": 4, "settings": {}})

    def recorder():
        return Recorder(Config.parse(values), {}, Book(tmp_path), Console(quiet=True), print, threading.Event())

    before = recorder()
    before.on_trial_start(0, [], trial)
    for progress, accuracy in ((20.0, 0.2), (40.0, 0.3), (60.0, 0.4)):
        before.on_trial_result(0, [], trial, {"progress": progress, "accuracy": accuracy})
    after = recorder()
    after.on_trial_start(0, [], trial)
    after.on_trial_result(0, [], trial, {"progress": 40.0, "accuracy": 0.3})  # its last checkpoint was before
    (noted,) = Book(tmp_path).unfinished()
    assert noted.validations == [(20.0, 0.2), (40.0, 0.3)]
