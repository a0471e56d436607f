"""Which figure chooses the epoch of a training, and that what chose is not what is reported."""

import numpy as np
import pytest
import torch

from gscl_scale.config.config import Config
from gscl_scale.embed.store import open_embeddings
from gscl_scale.errors import ConfigError
from gscl_scale.evaluate.links import by_cosine, validation_auc
from gscl_scale.evaluate.ranking import ring_ranking
from gscl_scale.evaluate.similarity import ring_lists
from gscl_scale.graph.draft import GraphDraft
from gscl_scale.graph.graph import Graph
from gscl_scale.io.json import read_json_lines
from gscl_scale.report.training_curves import training
from gscl_scale.run.record import open_run
from gscl_scale.runtime.console import Console
from gscl_scale.shards.reader import Samples
from gscl_scale.stages import selection
from gscl_scale.stages.embed import embed
from gscl_scale.stages.evaluate import evaluate
from gscl_scale.stages.ingest import ingest
from gscl_scale.stages.precompute import precompute
from gscl_scale.stages.report import load_run_data
from gscl_scale.stages.selection import quick_figure, reported_anchors, selection_for_training, selection_kind
from gscl_scale.stages.train import checkpoints_of, train
from tests.graphs import random_edges

NODES = 150
QUIET = Console(quiet=True)
VALUES = {
    "graph": {"source": "memory", "structural_features": 16},
    "rings": {"hops": 1, "width": 16, "per_ring": 4, "beyond": 8, "rounds": 1},
    "model": {"width": 8, "projection": 8},
    "train": {"epochs": 3, "batch_size": 60, "negatives": 16, "validate_every": 1},
    "evaluate": {"initialisations": 1, "probe_epochs": 5, "random_splits": 1},
}


def settings(**changed):
    return Config.parse({**VALUES, **{name: {**VALUES.get(name, {}), **part} for name, part in changed.items()}})


def ingested(folder, config, labels=False):
    groups = np.arange(NODES) // 15
    edges = random_edges(NODES, 900, seed=1)
    edges[:, 1] = groups[edges[:, 0]] * 15 + edges[:, 1] % 15
    draft = GraphDraft("made", "a test", NODES, [(edges[:, 0], edges[:, 1])], labels=groups % 3 if labels else None)
    run = open_run(config, folder)
    return run, ingest(config, run, QUIET, draft)


def trained(folder, config, labels=False):
    run, graph = ingested(folder, config, labels)
    console = QUIET.with_log(run.log)
    for stage in (precompute, train, embed):
        stage(config, run, console)
    return run, graph


@pytest.mark.parametrize(
    ("labels", "asked", "edges", "nodes", "kind"),
    [
        (True, "auto", 0.2, 0.2, "probe"),
        (True, "links", 0.2, 0.2, "links"),
        (True, "ranking", 0.2, 0.2, "ranking"),
        (True, "links", 0.0, 0.2, None),
        (True, "ranking", 0.2, 0.0, None),
        (False, "auto", 0.2, 0.2, "links"),
        (False, "auto", 0.0, 0.2, "ranking"),
        (False, "probe", 0.2, 0.2, None),
        (False, "auto", 0.0, 0.0, None),
    ],
)
def test_the_first_figure_that_the_graph_allows_chooses_or_the_one_asked_for(
    tmp_path, labels, asked, edges, nodes, kind
):
    config = settings(evaluate={"select_by": asked, "held_out_edges": edges}, train={"held_out": nodes})
    _, graph = ingested(tmp_path, config, labels)
    assert selection_kind(config, graph) == kind
    if kind is None:
        cure = "evaluate.select_by=auto" if edges else "evaluate.held_out_edges=0.1"
        with pytest.raises(ConfigError, match=rf"train.validate_every: .*set it to 0, or .*{cure}"):
            selection_for_training(config, graph)


def test_a_training_without_labels_keeps_the_epoch_that_predicts_its_validation_edges_best(tmp_path):
    config = settings(evaluate={"held_out_edges": 0.2})
    run, graph = trained(tmp_path, config)
    events = read_json_lines(run.log)
    aucs = [event["accuracy"] for event in events if event["event"] == "validation"]
    assert len(aucs) == 3
    assert min(aucs) > 0.5
    assert checkpoints_of(config, run).chosen()[1].epoch == int(np.argmax(aucs)) + 1
    with open_embeddings(run.embeddings, run.folder) as vectors:
        assert validation_auc(graph, config.evaluate.seed)(by_cosine(vectors)) == pytest.approx(max(aucs), abs=0.002)
    assert [event["by"] for event in events if event["event"] == "selection"] == ["links"]
    evaluate(config, run, QUIET)
    assert "on held-out edges." in training(load_run_data(config, run, QUIET, mapped=False))


def test_the_probe_of_a_validation_learns_a_sample_of_the_training_nodes(tmp_path, monkeypatch):
    config = settings(evaluate={"sample": 100, "train_fractions": [0.8], "val_fraction": 0.1})
    run, graph = ingested(tmp_path, config, labels=True)
    probed = []
    monkeypatch.setattr(selection, "validation_accuracy", lambda vectors, graph, splits, *_: probed.extend(splits))
    quick_figure(config, run, graph, torch.device("cpu"))(graph.features)
    assert [split.counts()["train"] for split in probed] == [100]  # of 120


def test_rings_of_nodes_that_chose_the_epoch_are_not_reported(tmp_path):
    config = settings(train={"held_out": 0.4})
    run, graph = trained(tmp_path, config)
    aucs = [event["accuracy"] for event in read_json_lines(run.log) if event["event"] == "validation"]
    reported = reported_anchors(config, graph)
    everyone = reported_anchors(settings(train={"held_out": 0.4, "validate_every": 0}), graph)
    chose = np.setdiff1d(everyone, reported)
    assert min(reported.size, chose.size) > 15
    assert np.isin(reported, everyone).all()
    of_half, of_all = (
        ring_lists(Samples.open(run.samples).round(0), graph, config.evaluate, nodes) for nodes in (chose, everyone)
    )
    with open_embeddings(run.embeddings, run.folder) as vectors:
        figure = quick_figure(config, run, graph, torch.device("cpu"))(vectors)
        assert figure == pytest.approx(max(aucs), abs=0.02)
        assert figure == ring_ranking(vectors, of_half, config.evaluate.seed)["accuracy"]
        assert figure != ring_ranking(vectors, of_all, config.evaluate.seed)["accuracy"]
    metrics = evaluate(config, run, QUIET)
    assert metrics["rings"]["protocol"]["anchors"] == reported.size


@pytest.mark.parametrize(("asked", "left_out"), [("auto", True), ("links", False)])
def test_validation_nodes_are_left_out_of_the_test_nodes_only_if_their_labels_chose(tmp_path, asked, left_out):
    config = settings(evaluate={"held_out_edges": 0.2, "select_by": asked, "random_splits": 2})
    run, _ = trained(tmp_path, config, labels=True)
    protocol = evaluate(config, run, QUIET)["probe"]["protocol"]
    assert ("left_out" in protocol) == left_out


def test_what_chose_the_epoch_of_a_run_cannot_be_changed_afterwards(tmp_path):
    config = settings(evaluate={"held_out_edges": 0.2, "select_by": "links"})
    trained(tmp_path, config)
    assert Graph.open(tmp_path / "graph")
    with pytest.raises(Exception, match=r"was chosen with evaluate.select_by='links', but the config now says 'auto'"):
        open_run(settings(evaluate={"held_out_edges": 0.2}), tmp_path)
