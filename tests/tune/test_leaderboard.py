from pathlib import Path
from types import SimpleNamespace

import pytest

from gscl_scale.config.config import Config
from gscl_scale.config.evaluate import TunedOn
from gscl_scale.config.graph_size import GraphSize
from gscl_scale.errors import FolderError
from gscl_scale.io.json import write_json
from gscl_scale.run.folder import Run
from gscl_scale.studies.tune.leaderboard import (
    best_of,
    counts,
    headers,
    leaderboard_rows,
    measure_of,
    trial_line,
    write_leaderboard,
)
from gscl_scale.studies.tune.records import Book, Trial, claim_search, ranked, rings_run, trial_run
from gscl_scale.studies.tune.space import Choice, with_settings
from gscl_scale.studies.tune.trial import base_config, trial_config

TRIALS = [
    Trial(1, {"model.width": 16, "model.layers": 1}, "finished", 0.7, 10, 3.0, validations=[(50, 0.6), (100, 0.7)]),
    Trial(2, {"model.width": 32, "model.layers": 1}, "finished", 0.8, 20, 4.0),
    Trial(3, {"model.width": 8, "model.layers": 1}, "stopped", 0.9, 5, 1.0, validations=[(20, 0.9)]),
    Trial(4, {"model.width": 4, "model.layers": 1}, "stopped", 0.5, 9, 2.0, validations=[(20, 0.4), (40, 0.5)]),
    Trial(5, {"model.width": 2, "model.layers": 1}, "failed", reason="it was too hot"),
    Trial(6, {"model.width": 1, "model.layers": 1}),
]


def book(folder):
    made = Book(folder)
    for trial in TRIALS:
        trial_run(folder, trial.number).checkpoints.mkdir(parents=True, exist_ok=True)
        (made.end if trial.ended else made.note)(trial)
    return made


def test_finished_trials_come_first_by_accuracy_then_stopped_ones_by_how_far_they_came():
    assert [trial.number for trial in ranked(TRIALS)] == [2, 1, 4, 3, 5]
    assert best_of(TRIALS) == TRIALS[1]
    assert best_of(TRIALS[2:]) is None
    assert counts(TRIALS[:5]) == "5 trials: 2 finished, 2 stopped early, 1 failed"
    assert counts(TRIALS[:1]).startswith("1 trial: ")


def test_rows_show_only_settings_that_differ_and_the_reason_of_failures():
    rows = leaderboard_rows(TRIALS)
    assert rows[0] == ("1", "2", "80.00", "20", "4", "finished", "width 32")
    assert rows[-1] == ("5", "5", "-", "-", "0", "failed", "it was too hot")
    assert trial_line(TRIALS[2], "AUC") == "trial 3: validation AUC (90.00) % in 1 s, stopped in epoch 5"
    assert trial_line(TRIALS[4], "AUC") == "trial 5 failed: it was too hot"


@pytest.mark.parametrize(
    ("evaluate", "many", "measure"),
    [
        ({}, False, "accuracy"),
        ({"measure": "roc_auc"}, False, "ROC-AUC"),
        ({}, True, "micro-F1"),
        ({"select_by": "links"}, False, "AUC"),
        ({"select_by": "ranking"}, True, "ranking accuracy"),
    ],
)
def test_the_column_of_the_figures_names_what_is_measured(tmp_path, evaluate, many, measure):
    config, graph = Config.parse({"evaluate": evaluate}), SimpleNamespace(label_sets=object() if many else None)
    assert measure_of(config, graph) == measure
    assert headers(measure)[2] == f"validation {measure} %"


def test_trials_are_read_as_they_were_noted_and_only_unfinished_ones_have_checkpoints(tmp_path):
    made, read = book(tmp_path), Book(tmp_path)
    assert read.all() == made.all() == TRIALS
    assert (read.ended(), read.unfinished()) == (TRIALS[:5], TRIALS[5:])
    assert [number for number in range(1, 7) if trial_run(tmp_path, number).checkpoints.exists()] == [6]


def test_the_best_config_says_how_it_was_found_and_is_whole(tmp_path):
    config = base_config(Config.parse({"train": {"epochs": 30, "repeats": 2}}))
    write_leaderboard(config, {"model.width": Choice((16, 32))}, book(tmp_path))
    text = (tmp_path / "best.yaml").read_text()
    assert "the best of 5 trials: 2 finished, 2 stopped early, 1 failed" in text
    assert "# Trial 2 with seed 0: validation accuracy 80.00 %, mean over" in text
    assert "#   model.width: [16, 32]\n" in text
    loaded = Config.load(tmp_path / "best.yaml")
    evaluate = config.evaluate.model_copy(update={"tuned_on": [TunedOn()]})
    assert loaded == with_settings(config, {"model.width": 32}).model_copy(update={"evaluate": evaluate})
    assert (loaded.train.validate_every, loaded.train.repeats) == (3, 2)
    assert "| 1 | 2 | 80.00 | 20 | 4 | finished | width 32 |" in (tmp_path / "leaderboard.md").read_text()


def test_a_search_upon_the_best_of_another_keeps_the_splits_of_both(tmp_path):
    earlier = TunedOn(seed=1)
    asked = {"train": {"objective": "supervised", "seed": 4}, "evaluate": {"seed": 2, "tuned_on": [earlier]}}
    for _ in range(2):  # the second time its own splits are known
        write_leaderboard(Config.parse(asked), {"model.width": Choice((16, 32))}, book(tmp_path))
        loaded = Config.load(tmp_path / "best.yaml")
        assert loaded.evaluate.tuned_on == [earlier, TunedOn(seed=2, learnt=4)]
        asked = loaded.dump()


def test_a_search_goes_on_only_as_it_began_wherever_it_runs(tmp_path):
    space = {"model.width": [16, 32]}
    claim_search(tmp_path, Config(), space)
    claim_search(tmp_path, Config.parse({"runtime": {"worker_cpus": 4}, "train": {"accumulate": 2}}), space)
    earlier = Config().dump()
    del earlier["model"]["bias"]
    earlier["baseline"]["dropout"] = None
    write_json(tmp_path / "search.json", {"version": "1", "config": earlier, "space": space})
    claim_search(tmp_path, Config(), space)
    with pytest.raises(FolderError, match=r"a search with another loss.gate; choose another --run"):
        claim_search(tmp_path, Config.parse({"loss": {"gate": 0.5}}), space)
    with pytest.raises(FolderError, match=r"another space.model.width"):
        claim_search(tmp_path, Config(), {"model.width": [16]})


def test_trials_with_the_same_rings_section_share_samples():
    def place(**sections):
        return rings_run(Config.parse(sections).sized(GraphSize(5000)), Run.at(Path("search"))).samples

    assert place() == place(model={"width": 7}) == place(loss={"gate": 0.1})
    assert len({place(), place(rings={"hops": 3}), place(train={"epochs": 7})}) == 3  # an epoch has a round of its own
    assert place(rings={"rounds": 2}) == place(rings={"rounds": 2}, train={"epochs": 7})


def test_a_trial_is_one_training_in_its_own_process_and_validated_ten_times_unless_the_config_says_otherwise():
    values = {"train": {"repeats": 5}, "rings": {"ahead": 2}, "runtime": {"engine": "ray", "worker_cpus": 2}}
    config = trial_config(Config.parse(values))
    assert (config.train.repeats, config.rings.ahead) == (1, 0)
    assert (config.runtime.engine, config.runtime.workers, config.runtime.device) == ("local", 2, "cpu")
    for train, every in (({"epochs": 80}, 8), ({"epochs": 3}, 1), ({"epochs": 80, "validate_every": 5}, 5)):
        assert base_config(Config.parse({"train": train})).train.validate_every == every
