"""Settings as keywords of `fit` and parameters of `NodeEmbedder`."""

import pytest
import yaml
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import make_pipeline

import gscl_scale
from gscl_scale import Config, NodeEmbedder
from gscl_scale.config.graphs import MemoryGraph
from gscl_scale.config.keywords import USUAL, changes_by, in_python, values_of
from gscl_scale.errors import ConfigError, FolderError, GraphError
from gscl_scale.graph.sources.objects import given_graph
from gscl_scale.run.record import config_in
from gscl_scale.stages.fit import config_for
from tests import forms
from tests.test_fit import SMALL


def configs(folder):
    """The same settings in every form of a config."""
    values = {**SMALL, "graph": {**SMALL["graph"], "source": "memory"}}
    (folder / "small.yaml").write_text(yaml.safe_dump(SMALL))
    return {
        "values": SMALL,
        "config": Config.parse(values),
        "path": folder / "small.yaml",
        "text": str(folder / "small.yaml"),
    }


@pytest.mark.parametrize("form", ["values", "config", "path", "text"])
def test_a_keyword_wins_over_a_config_of_every_form(form, tmp_path):
    config = configs(tmp_path)[form]
    embeddings = gscl_scale.fit(
        forms.draft()[0], config, tmp_path / "run", epochs=1, width=5, seed=3, loss__temperature=0.25
    )
    used = config_in(tmp_path / "run")
    assert embeddings.shape == (300, 5)
    assert (used.train.epochs, used.model.width, used.loss.temperature) == (1, 5, 0.25)
    assert {used.train.seed, used.rings.seed, used.evaluate.seed} == {3}
    assert (used.train.batch_size, used.rings.hops, used.graph.structure, used.graph.source) == (
        40,
        1,
        "none",
        "memory",
    )


def test_a_config_that_says_nothing_of_the_graph_has_the_defaults_of_a_graph_in_memory(tmp_path):
    graph = given_graph(forms.draft()[0])
    (tmp_path / "short.yaml").write_text("train: {epochs: 3}")
    for config in (Config.parse({"train": {"epochs": 3}}), {"train": {"epochs": 3}}, tmp_path / "short.yaml", None):
        assert config_for(graph, values_of(config)).graph == MemoryGraph()
    assert config_for(graph, values_of(Config.parse({"graph": {}}))).graph.source == "digits"


def test_every_usual_keyword_is_a_key_of_the_configuration():
    known = Config().dump()
    for name, dotted in USUAL.items():
        assert all(key in known[section] for section, key in (one.split(".") for one in dotted)), name
    values = {"epochs": 3, "hops": 1, "width": 4, "layers": 2, "batch_size": 9, "seed": 5, "device": "cpu"}
    assert values.keys() == USUAL.keys()
    changed = Config.parse(changes_by(values, "fit")).dump()
    for name, value in values.items():
        assert all(changed[section][key] == value for section, key in (one.split(".") for one in USUAL[name]))


@pytest.mark.parametrize(
    ("keywords", "sentence"),
    [
        ({"epoch": 3}, "fit: unknown keyword 'epoch'; did you mean epochs"),
        ({"learning_rate": 0.1}, "fit: unknown keyword 'learning_rate'; did you mean train__learning_rate"),
        ({"source_column": "von"}, "did you mean graph__source_column"),
        ({"label": "y"}, "did you mean labels"),
        ({"qiet": True}, "did you mean quiet"),
        ({"zzz": 1}, "known ones are epochs, hops, .*and section__key for any other setting"),
        ({"nonsense__epochs": 1}, "unknown keyword 'nonsense__epochs'; did you mean epochs"),
        ({"train__epoch": 1}, "train.epoch: unknown key; did you mean epochs"),
        ({"lr": 1}, "unknown keyword 'lr'; did you mean train__learning_rate"),
        ({"model__hidden_channels": 1}, "model.hidden_channels: unknown key; did you mean width"),
        ({"epochs": 0}, "train.epochs: expected a number from 1, or auto, got 0"),
        ({"epochs": True}, "train.epochs"),
        ({"runtime__embed_tiles": "maybe"}, "runtime.embed_tiles: expected auto, true or false, got 'maybe'; see"),
        ({"device": "gpu"}, "runtime.device"),
        ({"config": 3}, "config: expected a Config, a dict of sections, or the path of a YAML file, got int"),
        ({"config": {"train": 3}}, "train: .*got 3"),
        ({"config": {"graph": 3}}, "graph"),
        ({"config": "nowhere.yaml"}, "nowhere.yaml does not exist"),
    ],
)
def test_an_unknown_keyword_or_a_wrong_value_gets_a_sentence(keywords, sentence):
    with pytest.raises(ConfigError, match=sentence):
        gscl_scale.fit(forms.draft()[0], **keywords)


def test_the_estimator_refuses_unknown_parameters_too():
    with pytest.raises(ConfigError, match="NodeEmbedder: unknown keyword 'epoch'; did you mean epochs"):
        NodeEmbedder(epoch=3)
    with pytest.raises(ConfigError, match=r"give train__epochs to set_params, as in NodeEmbedder\(\).set_params"):
        NodeEmbedder(train__epochs=3)
    with pytest.raises(ConfigError, match="device, config, quiet, run, and section__key"):  # each once
        NodeEmbedder().set_params(foo=1)
    with pytest.raises(ConfigError, match="unknown keyword 'label'; did you mean labels"):
        NodeEmbedder().fit(forms.draft()[0], label=[1])


def test_parameters_are_those_of_scikit_learn_and_settings_are_nested_ones():
    embedder = NodeEmbedder(SMALL, epochs=3)
    assert embedder.get_params(deep=False) == {
        "config": SMALL, "run": None, "quiet": True, "epochs": 3, "hops": None, "width": None, "layers": None,
        "batch_size": None, "seed": None, "device": None,
    }  # fmt: skip
    deep = embedder.get_params()
    assert (deep["train__epochs"], deep["train__batch_size"], deep["rings__hops"]) == (3, 40, 1)
    assert deep["train__learning_rate"] == Config().train.learning_rate
    again = clone(NodeEmbedder(SMALL)).set_params(**deep)
    assert again.get_params() == {**deep, "config": again.config}
    assert embedder.set_params() is embedder


def test_the_parameter_that_was_set_last_counts_and_the_given_config_is_not_changed():
    given = {"train": {"epochs": 9, "batch_size": 40}}
    embedder = NodeEmbedder(given, epochs=3)
    assert embedder.set_params(train__epochs=2).get_params()["train__epochs"] == 2
    assert clone(embedder).get_params()["train__epochs"] == 2
    assert embedder.set_params(epochs=4).get_params()["train__epochs"] == 4
    assert embedder.set_params(epochs=None).get_params()["train__epochs"] == 2
    assert given == {"train": {"epochs": 9, "batch_size": 40}}
    whole = NodeEmbedder(Config()).set_params(train__epochs=2, seed=4)
    assert (whole.config.train.epochs, whole.get_params()["rings__seed"]) == (2, 4)
    with pytest.raises(ConfigError, match="set_params: unknown keyword 'epoch'; did you mean epochs"):
        embedder.set_params(epoch=3)
    with pytest.raises(ConfigError, match=r"train\.epoch: unknown key"):
        embedder.set_params(train__epoch=3)
    assert embedder.get_params()["train__epochs"] == 2


def test_an_estimator_with_a_wrong_config_can_be_shown_and_says_what_is_wrong_when_it_is_fitted():
    embedder = NodeEmbedder("nowhere.yaml", epochs=2)
    assert repr(embedder) == "NodeEmbedder(config='nowhere.yaml', epochs=2)"
    assert "nowhere.yaml" in embedder._repr_html_()
    with pytest.raises(ConfigError, match=r"nowhere\.yaml does not exist"):
        embedder.fit(forms.draft()[0])
    assert embedder.set_params(config=SMALL).get_params()["train__batch_size"] == 40


def test_a_search_over_settings_and_a_pipeline_with_a_classifier_of_nodes_work():
    graph, labels = forms.draft()[0], forms.arrays()[-1]
    line = make_pipeline(NodeEmbedder(SMALL), LogisticRegression())
    widths = []
    for parameters in ParameterGrid({"nodeembedder__train__epochs": [1, 2], "nodeembedder__width": [4, 6]}):
        one = clone(line).set_params(**parameters).fit(graph, labels)
        assert one.predict(graph).shape == (300,)
        assert one[0].config_.train.epochs == parameters["nodeembedder__train__epochs"]
        widths.append(one[0].get_feature_names_out().size)
    assert widths == [4, 6, 4, 6]
    assert "nodeembedder" in repr(line)
    assert "NodeEmbedder" in line._repr_html_()


@pytest.mark.parametrize(
    ("option", "keyword"),
    [
        ("a new folder (--run), or --overwrite", "a new folder (run=...), or --overwrite"),
        ("--set graph.header=true or --set graph.header=false", "graph__header=True or graph__header=False"),
        ("set it, --set model.width=64, or not", "set it, model__width=64, or not"),
        ("""add --set 'graph.comment="#"' to skip""", "add graph__comment='#' to skip"),
        ("--set graph.label_column=null makes", "graph__label_column=None makes"),
        ("--set graph.a=x --set 'graph.b=\"0 1\"'; or", "graph__a='x', graph__b='0 1'; or"),
        ("--set graph.label_column=[a is none", "--set graph.label_column=[a is none"),
    ],
)
def test_messages_name_keywords_in_place_of_options(option, keyword):
    assert in_python(option) == keyword


def test_errors_of_the_functions_name_keywords(tmp_path):
    graph, run = forms.draft()[0], tmp_path / "run"
    gscl_scale.fit(graph, SMALL, run=run)
    other = {"config": SMALL, "width": 16, "run": run}
    for start in (lambda: gscl_scale.fit(graph, **other), lambda: NodeEmbedder(**other).fit_transform(graph)):
        with pytest.raises(FolderError, match=r"use a new folder \(run=\.\.\.\) or delete that folder"):
            start()
    (tmp_path / "edges.csv").write_text("anna,milk\nbert,tea\ncarl,jam\n")
    for start in (gscl_scale.fit, NodeEmbedder.load(run).transform):
        with pytest.raises(GraphError, match="say which: graph__header=True or graph__header=False"):
            start(tmp_path / "edges.csv")
    (run / "run.json").write_text("{")
    for start in (gscl_scale.open_run, NodeEmbedder.load):
        with pytest.raises(FolderError, match=r"choose another run=\.\.\., or delete"):
            start(run)
