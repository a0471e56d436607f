from dataclasses import replace

import numpy as np
import pytest

from gscl_scale.config.config import Config
from gscl_scale.config.graphs import MemoryGraph
from gscl_scale.errors import ConfigError, FolderError, UserError
from gscl_scale.evaluate.validation import validation_accuracy, validation_splits
from gscl_scale.graph.draft import GraphDraft, write_graph
from gscl_scale.graph.held_out_edges import HoldOut
from gscl_scale.graph.sources.read import read
from gscl_scale.io.json import read_json_lines
from gscl_scale.run.record import open_run
from gscl_scale.runtime.console import Console
from gscl_scale.stages.selection import selection_for_search, splits_of_search
from gscl_scale.studies.tune.records import Book, Trial, trial_run
from gscl_scale.studies.tune.space import with_settings
from gscl_scale.studies.tune.trial import run_trial, trial_config
from gscl_scale.studies.tune.tune import tune
from tests.graphs import make_graph, random_edges

NODES, CLASSES = 120, 3
CONFIG = Config.parse(
    {
        "graph": {"source": "memory"},
        "rings": {"hops": 1, "width": 16, "per_ring": 4, "beyond": 8, "rounds": 1},
        "model": {"width": 8, "projection": 8},
        "train": {"epochs": 4, "batch_size": 60, "negatives": 16, "validate_every": 1, "checkpoint_every": 1},
        "evaluate": {"random_splits": 7, "initialisations": 2, "probe_epochs": 20, "probe_weight_decay": [0.0]},
    }
)


def labelled_graph(folder, other_test_labels=False, splits=2):
    """A graph with published splits whose labels follow the features."""
    rng = np.random.default_rng(0)
    labels = np.arange(NODES) % CLASSES
    features = rng.normal(size=(NODES, 5)).astype(np.float32) + labels[:, None]
    published = {f"split_{n}": np.random.default_rng(7).permutation(np.arange(NODES) % 3 + 1) for n in range(splits)}
    if other_test_labels:
        test = published["split_0"] == 3
        labels = np.where(test, (labels + 1) % CLASSES, labels)
    codes = {name: values.astype(np.int8) for name, values in published.items()}
    return make_graph(folder, random_edges(NODES, 400, seed=1), NODES, features=features, labels=labels, splits=codes)


def tried(folder, number=1, report=lambda epoch, accuracy: None, **settings):
    return run_trial(with_settings(trial_config(CONFIG), settings), trial_run(folder, number), report)


def test_labels_of_test_nodes_change_nothing(tmp_path):
    graph = labelled_graph(tmp_path / "graph")
    for split in validation_splits(graph, CONFIG.evaluate, most=2):
        assert set(np.unique(split.codes)) == {0, 1, 2}  # none has test nodes
    labels, figures = [], []
    for name, other in (("one", False), ("other", True)):
        labels.append(labelled_graph(tmp_path / name / "graph", other).labels.tolist())
        reports = []
        figures.append((tried(tmp_path / name, report=lambda *each, to=reports: to.append(each)), reports))
    assert labels[0] != labels[1]
    assert figures[0] == figures[1]
    assert len(figures[0][1]) == CONFIG.train.epochs


SUPERVISED = {"train": {"objective": "supervised", "seed": 1}, "evaluate": {"random_splits": 3}}


@pytest.mark.parametrize(
    ("values", "names"),
    [
        *(
            (
                {"evaluate": {"train_fractions": [0.2, 0.5], "random_splits": drawn}},
                [f"random_0.2_{n}" for n in range(used)],
            )
            for drawn, used in ((3, 3), (7, 5))
        ),
        (SUPERVISED, ["random_0.1_1"]),
    ],
)
def test_a_trial_is_measured_on_some_splits_of_one_kind_or_on_that_of_the_labels_it_learnt(tmp_path, values, names):
    graph = labelled_graph(tmp_path / "graph", splits=0)
    assert [split.name for split in splits_of_search(graph, Config.parse(values))] == names


def test_the_figure_of_a_trial_is_the_mean_over_splits(tmp_path):
    graph = labelled_graph(tmp_path / "graph", splits=0)
    splits = splits_of_search(graph, CONFIG)[:2]
    one, other, both = (
        validation_accuracy(graph.features, graph, some, CONFIG.evaluate) for some in (splits[:1], splits[1:], splits)
    )
    assert one != other
    assert min(one, other) < both < max(one, other)


def test_a_graph_that_nothing_can_be_chosen_on_is_refused(tmp_path):
    graph = make_graph(tmp_path / "graph", random_edges(20, 40, seed=0), 20)
    with pytest.raises(ConfigError, match=r"tune: the graph has no labels, so that no trial can be chosen"):
        selection_for_search(CONFIG, graph)


def test_held_out_edges_that_are_all_for_the_test_ask_for_more_of_them(tmp_path):
    config = Config.parse({**CONFIG.dump(), "evaluate": {"held_out_edges": 0.3}})
    draft = GraphDraft("path", "a test", 4, [(np.array([0, 1, 2]), np.array([1, 2, 3]))])
    asked = HoldOut(0.3, seed=2)
    graph = write_graph(draft, MemoryGraph(), tmp_path / "graph", asked)
    with pytest.raises(
        ConfigError, match=r"no labels, and no held-out edge is for validation.*hold more .*held_out_edges=0\.6"
    ):
        selection_for_search(config, graph)


def test_trials_with_the_same_rings_use_the_same_samples(tmp_path):
    labelled_graph(tmp_path / "graph")
    tried(tmp_path, 1, **{"model.width": 8})
    tried(tmp_path, 2, **{"model.width": 4})
    tried(tmp_path, 3, **{"rings.hops": 2})
    made = [
        [event["reused"] for event in read_json_lines(trial_run(tmp_path, number).log) if event["event"] == "samples"]
        for number in (1, 2, 3)
    ]
    assert made == [[False], [True], [False]]
    logs = [read_json_lines(path) for path in (tmp_path / "rings").glob("*/log.jsonl")]
    assert [sum(event["event"] == "done" for event in log) for log in logs] == [1, 1]


def test_a_trial_that_was_broken_off_goes_on_at_its_last_checkpoint(tmp_path):
    labelled_graph(tmp_path / "graph")
    whole = tried(tmp_path, 1)

    class Broken(Exception):
        pass

    def breaks(epoch, accuracy):
        if epoch == 3:
            raise Broken

    with pytest.raises(Broken):
        tried(tmp_path, 2, breaks)
    seen = []
    assert tried(tmp_path, 2, lambda epoch, accuracy: seen.append(epoch)) == whole
    assert seen == [3, 4]


def test_without_optuna_a_sentence_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setattr("gscl_scale.runtime.extras.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'gscl-scale\[tune\]'"):
        tune(CONFIG, None, tmp_path / "run", 1, None, Console(quiet=True))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("asked_for", "trials"), [(3, 3), (10, 4)])
def test_a_search_has_no_more_trials_than_there_are_settings_left(tmp_path, monkeypatch, asked_for, trials):
    config = Config.parse({**CONFIG.dump(), "graph": {"source": "synthetic", "preset": "tiny"}})
    (tmp_path / "space.yaml").write_text("model.width: [4, 8, 16]")
    open_run(config, tmp_path / "run")
    for number, width in enumerate((4, 4, 8), start=1):  # repeats, as searches had before settings were counted
        Book(tmp_path / "run").end(Trial(number, {"model.width": width}, "finished", 0.5))
    seen = []
    monkeypatch.setattr("gscl_scale.studies.tune.search.search_on_ray", lambda search, *_: seen.append(search.trials))
    tune(config, tmp_path / "space.yaml", tmp_path / "run", asked_for, None, Console(quiet=True))
    assert seen == [trials]


UNLABELLED = {**CONFIG.dump(), "graph": {"source": "synthetic", "preset": "tiny", "structure": "always"}}


@pytest.fixture
def without_ray(monkeypatch):
    """Trials one after the other in this process; the settings are those of the space, in turn."""

    def search(asked, book, console):
        for number, value in enumerate(asked.space["model.width"].values, start=1):
            chosen = with_settings(trial_config(asked.config), {"model.width": value})
            accuracy, epoch = run_trial(chosen, trial_run(book.folder, number), lambda epoch, accuracy: None)
            book.end(Trial(number, {"model.width": value}, "finished", accuracy, epoch))

    monkeypatch.setattr("gscl_scale.studies.tune.search.search_on_ray", search)


def unlabelled(folder, monkeypatch, space="model.width: [4, 8]", **evaluate):
    """The configuration of a search on a graph without labels."""
    monkeypatch.setattr("gscl_scale.graph.estimate.read", lambda *given: replace(read(*given), labels=None, splits={}))
    (folder / "space.yaml").write_text(space)
    return Config.parse({**UNLABELLED, "evaluate": {**CONFIG.evaluate.model_dump(), **evaluate}})


def test_a_graph_without_labels_is_searched_by_its_held_out_edges(tmp_path, monkeypatch, without_ray):
    config = unlabelled(tmp_path, monkeypatch, held_out_edges=0.2)
    book = tune(config, tmp_path / "space.yaml", tmp_path / "run", 2, None, Console(quiet=True))
    assert all(0.5 < trial.accuracy <= 1 for trial in book.ended())
    assert book.measure == "AUC"
    text = (tmp_path / "run/best.yaml").read_text()
    assert "Chosen by the AUC of held-out edges for validation" in text
    best = Config.load(tmp_path / "run/best.yaml")
    assert (best.evaluate.select_by, best.evaluate.held_out_edges, best.evaluate.tuned_on) == ("links", 0.2, [])
    board = (tmp_path / "run/leaderboard.md").read_text()
    assert "Chosen by the AUC of held-out edges" in board
    assert "| validation AUC % |" in board


def test_a_search_goes_on_in_its_own_space_where_none_is_given(tmp_path, monkeypatch, without_ray):
    config = unlabelled(tmp_path, monkeypatch, held_out_edges=0.2)
    book = tune(config, tmp_path / "space.yaml", tmp_path / "run", 2, None, Console(quiet=True))
    again = tune(config, None, tmp_path / "run", 2, None, Console(quiet=True))
    assert [trial.settings for trial in again.ended()] == [trial.settings for trial in book.ended()]
    (tmp_path / "space.yaml").write_text("model.width: [4, 16]")
    with pytest.raises(FolderError, match=r"a search with another space\.model\.width"):
        tune(config, tmp_path / "space.yaml", tmp_path / "run", 2, None, Console(quiet=True))


def test_a_search_by_rankings_refuses_keys_that_change_the_rings(tmp_path, monkeypatch, without_ray):
    config = unlabelled(tmp_path, monkeypatch, "rings.hops: [1, 2]")
    with pytest.raises(ConfigError, match=r"tune: the graph has no labels.*evaluate.held_out_edges=0.1"):
        tune(config, tmp_path / "space.yaml", tmp_path / "run", 2, None, Console(quiet=True))
    config = with_settings(config, {"train.held_out": 0.3})
    with pytest.raises(ConfigError, match=r"compared by the ranking of rings, and rings.hops changes the rings"):
        tune(config, tmp_path / "space.yaml", tmp_path / "other", 2, None, Console(quiet=True))
    (tmp_path / "space.yaml").write_text("model.width: [4, 8]")
    book = tune(config, tmp_path / "space.yaml", tmp_path / "other", 2, None, Console(quiet=True))
    assert all(0.5 < trial.accuracy <= 1 for trial in book.ended())
    assert book.measure == "ranking accuracy"
    assert Config.load(tmp_path / "other/best.yaml").evaluate.select_by == "ranking"
