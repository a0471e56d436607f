"""No label of a test node decides anything before the test: other labels there leave every choice as it is."""

from typing import Any

import numpy as np
import pytest

from gscl_scale.config.config import Config
from gscl_scale.embed.store import open_embeddings
from gscl_scale.evaluate.splits import TEST, VAL, make_splits
from gscl_scale.graph.draft import GraphDraft
from gscl_scale.io.json import read_json_lines
from gscl_scale.run.record import open_run
from gscl_scale.runtime.console import Console
from gscl_scale.stages.embed import embed
from gscl_scale.stages.evaluate import evaluate
from gscl_scale.stages.ingest import ingest
from gscl_scale.stages.precompute import precompute
from gscl_scale.stages.train import checkpoints_of, train
from gscl_scale.studies.tune.trial import run_trial, trial_config
from tests.slow import slow

NODES, CLASSES = 150, 3
QUIET = Console(quiet=True)
VALUES = {
    "graph": {"source": "memory", "structure": "none"},
    "rings": {"hops": 1, "width": 16, "per_ring": 4, "beyond": 8, "rounds": 1},
    "model": {"width": 8, "projection": 8},
    "train": {"epochs": 4, "batch_size": 75, "negatives": 16, "validate_every": 1, "learning_rate": 0.01},
    "evaluate": {
        "initialisations": 2, "probe_epochs": 40, "probe_learning_rate": 0.1, "probe_scaling": "auto",
        "random_splits": 1, "train_fractions": [0.3], "val_fraction": 0.3, "many_labels_fractions": [0.5],
    },
    "runtime": {"workers": 1, "device": "cpu"},
}  # fmt: skip
CASES = {
    "random split": {},
    "published split": {"published": True},
    "many labels per node": {"many": True},
    "supervised": {"objective": "supervised"},
    "supervised, published split": {"objective": "supervised", "published": True},
}


def draft_of(turned: np.ndarray, published: bool = False, many: bool = False) -> GraphDraft:
    """A graph whose features tell its labels with much noise; those of the nodes [N] in `turned` are others."""
    draw = np.random.default_rng(5)
    edges, classes = draw.integers(0, NODES, (400, 2)), draw.integers(0, CLASSES, NODES)
    features = (draw.normal(size=(NODES, 6)) + np.eye(CLASSES, 6)[classes]).astype(np.float32)
    codes = {"split": draw.permutation(np.arange(NODES) % 3 + 1).astype(np.int8)} if published else {}
    labels = np.where(turned, (classes + 1) % CLASSES, classes)
    if many:  # one label or two: that of the class, and for every other node that of the next
        labels = np.eye(CLASSES, dtype=int)[labels] | (np.eye(CLASSES, dtype=int)[(labels + 1) % CLASSES].T
                                                       * (np.arange(NODES) % 2)).T  # fmt: skip
    return GraphDraft(
        "made", "a test", NODES, [(edges[:, 0], edges[:, 1])], features=features, labels=labels, splits=codes
    )


def config_for(objective: str = "gscl", **_: bool) -> Config:
    return Config.parse({**VALUES, "train": {**VALUES["train"], "objective": objective}})


def ingested(folder, turned, case):
    config = config_for(**case)
    run = open_run(config, folder)
    kinds = {name: value for name, value in case.items() if name != "objective"}
    return config, run, ingest(config, run, QUIET, draft_of(turned, **kinds))


def nodes_of(folder, case, code):
    """The nodes [N] of a part of the split that everything is chosen by."""
    config, _, graph = ingested(folder, np.zeros(NODES, bool), case)
    (split,) = make_splits(graph, config.evaluate, config.train.label_seed)
    return split.codes == code


def chosen(folder, turned, case) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a run has chosen, and by which figures; and what it measures on test nodes."""
    config, run, _ = ingested(folder, turned, case)
    console = QUIET.with_log(run.log)
    for stage in (precompute, train, embed):
        stage(config, run, console)
    events = read_json_lines(run.log)
    with open_embeddings(run.embeddings, run.folder) as vectors:
        rows = np.array(vectors)
    metrics = evaluate(config, run, QUIET)
    probe = metrics["probe"]
    of_probe = {
        name: {key: value for key, value in probe[name].items() if not key.startswith(("test", "macro"))}
        for name in ("trained", "untrained", "raw")
    }
    steps = [
        {name: [one[name]["val_mean"], one[name].get("best_epoch_mean")] for name in of_probe}
        for one in probe["splits"]
    ]
    choices = {
        "validation figures": [event["accuracy"] for event in events if event["event"] == "validation"],
        "epoch": checkpoints_of(config, run).chosen()[1].epoch,
        "embeddings": rows.tobytes(),
        "probe": of_probe,
        "steps of the probe": steps,
        "by decay": probe["protocol"]["val_by_decay"],
    }
    return choices, {name: probe[name]["test_mean"] for name in of_probe}


@pytest.mark.parametrize("name", ["random split", *slow(*list(CASES)[1:])])
def test_other_labels_on_test_nodes_change_no_choice_of_a_run(tmp_path, name):
    case = CASES[name]
    nobody, test, val = np.zeros(NODES, bool), *(nodes_of(tmp_path / "parts", case, code) for code in (TEST, VAL))
    before, measured = chosen(tmp_path / "before", nobody, case)
    assert len(before["validation figures"]) == 4
    after, other = chosen(tmp_path / "test", test, case)
    for what, found in before.items():
        assert after[what] == found, what
    assert all(other[name] != measured[name] for name in measured)
    differing, _ = chosen(tmp_path / "val", val, case)  # these are what chooses
    for what in ("validation figures", "probe", "steps of the probe", "by decay"):
        assert differing[what] != before[what], what


@pytest.mark.parametrize("name", ["random split", *slow(*list(CASES)[1:])])
def test_other_labels_on_test_nodes_change_no_figure_of_a_search(tmp_path, name):
    case = CASES[name]
    test, val = (nodes_of(tmp_path / "parts", case, code) for code in (TEST, VAL))

    def tried(folder, turned):
        reports = []
        config, run, _ = ingested(folder, turned, case)
        return run_trial(trial_config(config), run, lambda *each: reports.append(each)), reports

    before = tried(tmp_path / "before", np.zeros(NODES, bool))
    assert tried(tmp_path / "test", test) == before
    assert tried(tmp_path / "val", val) != before
