"""Objectives in the loop that all share: checkpoints, resume, embeddings, figures."""

import numpy as np
import pytest
import torch

from gscl_scale import pipeline
from gscl_scale.config.config import Config
from gscl_scale.embed.store import read_embeddings
from gscl_scale.errors import ConfigError, FolderError
from gscl_scale.evaluate.splits import make_splits
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import SPLIT_CODES
from gscl_scale.io.json import read_json, write_json
from gscl_scale.run.log import read_curve
from gscl_scale.run.record import config_in, open_run
from gscl_scale.runtime.console import Console
from gscl_scale.stages import finished
from gscl_scale.stages import train as training
from gscl_scale.stages.embed import embed
from gscl_scale.stages.evaluate import evaluate
from gscl_scale.stages.status import status
from gscl_scale.stages.train import train
from gscl_scale.train.loop import encode_all
from gscl_scale.train.objectives.methods import METHODS, OBJECTIVES, configured
from gscl_scale.train.objectives.trainer import ObjectiveTrainer
from gscl_scale.train.process_group import World
from tests.graphs import make_graph, random_edges

pytestmark = pytest.mark.usefixtures("blank_curves")

VALUES = {
    "graph": {"source": "memory"},
    "model": {"width": 8, "projection": 8, "activation": "rrelu"},
    "train": {"epochs": 7, "checkpoint_every": 2, "learning_rate": 0.01},
    "evaluate": {"random_splits": 3, "train_fractions": [0.3], "initialisations": 2, "probe_epochs": 5},
    "runtime": {"device": "cpu"},
}


def prepared(folder, objective, **sections):
    values = {**VALUES, **sections}
    config = Config.parse({**values, "train": {**values["train"], "objective": objective}})
    run = open_run(config, folder)
    make_graph(run.graph, random_edges(60, 150, seed=3), 60, labels=np.arange(60) % 3)
    return config, run, Console(run.log, quiet=True)


def losses(run):
    return [(event["step"], event["loss"]) for event in read_curve(run.log)]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_training_that_was_cut_off_has_the_losses_and_weights_of_the_undisturbed_one(
    objective, tmp_path, monkeypatch
):
    dropping = {"model": {**VALUES["model"], "feature_dropout": 0.3, "norm": "batch"}}
    config, whole, console = prepared(tmp_path / "whole", objective, **dropping)
    training.train(config, whole, console)

    config, cut, console = prepared(tmp_path / "cut", objective, **dropping)
    step = ObjectiveTrainer.step

    def until_the_sixth(self, *arguments):
        if self.position.step == 5:
            raise KeyboardInterrupt
        return step(self, *arguments)

    with monkeypatch.context() as cutting:
        cutting.setattr(ObjectiveTrainer, "step", until_the_sixth)
        with pytest.raises(KeyboardInterrupt):
            training.train(config, cut, console)
    training.train(config, cut, console)

    assert len(losses(whole)) == 7
    assert losses(cut) == losses(whole)
    states = [training.checkpoints_of(config, run).chosen()[0] for run in (whole, cut)]
    for part in ("model", "objective"):
        one, other = (state[part] for state in states)
        assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_objective_goes_from_graph_to_report_without_ring_samples_and_changes_the_encoder(objective, tmp_path):
    config, run, console = prepared(tmp_path / "run", objective)
    metrics = pipeline.run(config, run.folder, console)
    assert not run.samples.exists()
    assert metrics["probe"]["trained"]["test_mean"] > 0
    assert metrics["missing"]["rings"] == "no ring samples were given"
    assert run.report.exists()
    assert "precompute" not in [state.stage for state in status(run.folder)]
    first = training.build_model(config.model, 5, 0).state_dict()["encoder.layers.0.weight"]
    assert not torch.equal(training.checkpoints_of(config, run).chosen()[0]["model"]["encoder.layers.0.weight"], first)


def test_a_supervised_run_is_measured_on_the_split_whose_labels_it_learns_and_on_no_other(tmp_path):
    config, run, console = prepared(tmp_path / "run", "supervised")
    config = config.model_copy(update={"train": config.train.model_copy(update={"seed": 4})})
    graph = Graph.open(run.graph)
    train(config, run, console)
    embed(config, run, console)
    metrics = evaluate(config, run, console)
    assert [split["name"] for split in metrics["probe"]["splits"]] == ["random_0.3_1"]
    (learnt,) = make_splits(graph, config.evaluate, label_seed=4)
    for section in ("clusters", "search"):
        assert metrics[section]["protocol"]["labelled"] == (learnt.codes == SPLIT_CODES["test"]).sum()
    known = training._objective(config, graph).known_K.numpy()
    assert known.tolist() == np.flatnonzero(learnt.codes == SPLIT_CODES["train"]).tolist()


def test_labels_are_needed_where_labels_are_learnt(tmp_path):
    config = Config.parse({**VALUES, "train": {"objective": "supervised"}})
    run = open_run(config, tmp_path / "run")
    make_graph(run.graph, random_edges(60, 150, seed=3), 60)
    with pytest.raises(ConfigError, match=r"train\.objective: supervised learns from labels .* graph has no labels"):
        training.train(config, run, Console(quiet=True))


def test_what_an_objective_of_the_whole_graph_cannot_do_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read samples .*; set model\.propagation to full"):
        Config.load(None, ["train.objective=dgi", "model.propagation=sampled"])
    with pytest.raises(ConfigError, match=r"model\.norm: with gscl a node's embedding must not depend"):
        Config.load(None, ["model.norm=batch"])
    config, run, console = prepared(tmp_path / "run", "dgi", baseline={"temperature": 0.5})
    with pytest.raises(ConfigError, match=r"baseline\.temperature: dgi reads no such setting, it reads none"):
        training.train(config, run, console)
    with pytest.raises(ConfigError, match="in one process, this training has 3"):
        training._refuse_shared_work(config, World(0, 3))
    ray = Config.load(None, ["train.objective=dgi", "runtime.engine=ray", "runtime.train_workers=1-2"])
    with pytest.raises(ConfigError, match=r"this training has 2; start one process, or set runtime\.train_workers"):
        training._refuse_shared_work(ray, World())


def test_a_step_that_needs_more_memory_than_there_is_is_refused(tmp_path, monkeypatch):
    config, run, console = prepared(tmp_path / "run", "graphmae")
    monkeypatch.setattr(training, "available_memory", lambda: 1000)
    says = r"graphmae needs at least \d+ KiB of memory for 60 nodes with \d+ features, and 1 KiB are available; choose"
    with pytest.raises(ConfigError, match=says):
        training.train(config, run, console)


def test_a_method_is_validated_and_saved_as_often_as_the_users_training():
    user = Config.load(
        None, ["train.epochs=80", "train.validate_every=5", "model.feature_dropout=0.5", "model.hidden_dropout=0.5"]
    )
    bgrl = configured(user, "bgrl")
    assert (bgrl.train.epochs, bgrl.train.validate_every, bgrl.train.checkpoint_every) == (10_000, 625, 1_250)
    assert (bgrl.train.learning_rate, bgrl.train.weight_decay) == (5e-4, 1e-5)
    assert (bgrl.model.feature_dropout, bgrl.model.hidden_dropout, bgrl.model.norm) == (0, 0, "batch")
    assert configured(user, "gscl-pairwise").train == user.train


def test_a_method_has_its_own_encoder_and_loss_where_its_paper_says_so():
    user = Config.parse({"model": {"projection": 0, "message_dropout": 0.5, "bias": False}, "loss": {"hop_zero": 2}})
    grace = configured(user, "grace")
    assert (grace.model.projection, grace.model.message_dropout) == (128, 0.0)
    assert configured(user, "gscl-listwise").model == user.model
    unbiased = [name for name in METHODS if not configured(user, name).model.bias]
    assert unbiased == ["supervised", "first-hop", "gscl-pairwise", "gscl-listwise"]
    gscl = [configured(user, name).loss.hop_zero for name in ("first-hop", "gscl-pairwise", "gscl-listwise")]
    assert gscl == [0, 2, 2]


def test_a_supervised_gat_is_trained_on_the_encoder_gat_whatever_the_users_encoder_is(tmp_path):
    changed = {"normalisation": "mean", "self_loops": False, "message_dropout": 0.3, "width": 16}
    config, run, console = prepared(tmp_path / "run", "gscl", model=changed)
    gat = configured(config, "gat")
    assert (gat.model.encoder, gat.model.feature_dropout, gat.model.width) == ("gat", 0.6, 16)
    assert (gat.train.objective, gat.train.epochs, gat.train.label_seed) == ("supervised", 1000, 0)
    short = gat.model_copy(update={"train": gat.train.model_copy(update={"epochs": 2})})
    training.train(short, run, console)
    assert "encoder.layers.0.conv.att_src" in training.checkpoints_of(short, run).chosen()[0]["model"]


def test_settings_of_one_method_are_stronger_than_its_papers_and_reach_no_other():
    user = Config.parse({"compare": {"settings": {"grace": ["train.epochs=40", "baseline.temperature=0.7"]}}})
    grace, dgi = configured(user, "grace"), configured(user, "dgi")
    assert (grace.train.epochs, grace.baseline.temperature, grace.train.learning_rate) == (40, 0.7, 5e-4)
    assert dgi.baseline.temperature is None
    assert configured(user, "first-hop").loss.positives == "each"
    assert [name for name in METHODS if name in OBJECTIVES] == list(OBJECTIVES)


def test_a_run_of_an_earlier_version_with_other_keys_is_resumed(tmp_path):
    config, run, console = prepared(tmp_path / "run", "dgi")
    training.train(config, run, console)
    record = read_json(run.folder / "run.json")
    keys = record["config"]
    del keys["train"]["patience"], keys["model"]["bias"]
    keys["baseline"]["dropout"] = None
    write_json(run.folder / "run.json", record)
    assert config_in(run.folder).dump() == config.dump()
    keys["baseline"]["dropout"] = 0.5
    write_json(run.folder / "run.json", record)
    with pytest.raises(FolderError, match=r"run\.json is damaged: baseline\.dropout: unknown key"):
        config_in(run.folder)
    for theirs, words in (("999.1.0", "gscl-scale 999.1.0 wrote it, and this is "), ("?", "run.json is damaged: ")):
        record["versions"]["gscl-scale"] = theirs
        write_json(run.folder / "run.json", record)
        with pytest.raises(FolderError, match=words):
            config_in(run.folder)
    del keys["baseline"]
    write_json(run.folder / "run.json", record)
    open_run(config, run.folder)


def test_checkpoints_are_known_by_the_same_settings_as_before_there_was_a_choice_of_bias(tmp_path, monkeypatch):
    config, run, _ = prepared(tmp_path / "run", "dgi")
    asked = []
    monkeypatch.setattr(finished, "fingerprint_of", lambda values: asked.append(values) or "name")
    training.checkpoints_of(config, run)
    training.checkpoints_of(Config.parse({**config.dump(), "model": {**config.dump()["model"], "bias": False}}), run)
    assert "bias" not in asked[0]["model"]
    assert asked[1]["model"]["bias"] is False


@pytest.mark.parametrize("encoder", ["gcn", "sage", "gat"])
def test_columns_of_a_supervised_encoder_that_no_class_has_are_zero(tmp_path, encoder):
    model = {**VALUES["model"], "encoder": encoder, "width": 16, "last_activation": False}
    config, run, console = prepared(tmp_path / "run", "supervised", model=model)
    training.train(config, run, console)
    embed(config, run, console)
    rows = read_embeddings(run.embeddings)[1]
    classes = len(Graph.open(run.graph).classes)
    assert classes < 16
    assert (rows[:, classes:] == 0).all()
    assert rows[:, :classes].any(axis=0).all()


def test_a_standardised_encoder_embeds_block_by_block_what_a_pass_over_the_graph_gives(tmp_path):
    sections = {"model": {**VALUES["model"], "layers": 2, "norm": "batch", "last_activation": False}}
    config, run, console = prepared(tmp_path / "run", "bgrl", **sections)
    training.train(config, run, console)
    embed(config, run, console)
    model = training.build_model(config.model, 5, 0)
    model.load_state_dict(training.checkpoints_of(config, run).chosen()[0]["model"])
    whole = encode_all(model, training.prepare_inputs(Graph.open(run.graph), config.model, torch.device("cpu")))
    np.testing.assert_allclose(read_embeddings(run.embeddings)[1], whole, rtol=1e-4, atol=1e-5)
