from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gscl_scale.config.config import Config
from gscl_scale.config.graph_size import GraphSize
from gscl_scale.config.schema import schema_rows
from gscl_scale.errors import ConfigError


def refused(*settings, values=None):
    with pytest.raises(ConfigError) as caught:
        Config.load(None, list(settings)) if values is None else Config.parse(values)
    return str(caught.value)


@pytest.mark.parametrize(
    ("setting", "begins", "says"),
    [
        ("train.batch_size=many", "train.batch_size: ", "integer, unable to parse string as an integer, got 'many'"),
        ("train.epoch=3", "train.epoch: ", "unknown key; did you mean epochs?"),
        ("train.lr=3", "train.lr: ", "unknown key; did you mean learning_rate?"),
        ("train.epochs=1e2", "train.epochs: ", "or auto, got '1e2' (YAML reads that as text: write 100); see"),
        ("trane.epochs=3", "trane: ", "unknown key; did you mean train?"),
        ("loss.gate=2", "loss.gate: ", "less than or equal to 1, got 2"),
        ("train.repeats=1048576", "train.repeats: ", "less than or equal to 1000"),  # status would list them all
        ("loss.gate=.nan", "loss.gate: ", "finite number"),
        ("rings.per_ring=ratio:2", "rings.per_ring: ", "a share, such as ratio:0.2, got 'ratio:2'"),
        ("rings.per_ring=0", "rings.per_ring: ", "expected a number from 1, 'all'"),
        ("rings.rounds=often", "rings.rounds: ", "'epoch' for one round per epoch"),
        ("model.layers=true", "model.layers: ", "expected a number, got True"),
        ("model.activation=gelu", "model.activation: ", "'relu', 'prelu' or 'rrelu'"),
        ("graph.source=neo4j", "graph.source: ", "expected one of digits, packages, synthetic, npz, tables, ogb, pyg"),
        ("graph.source=npz", "graph.path: ", "required and not given"),
        ("train.patience=3", "train: ", "set train.validate_every to 1 or more"),
        ("evaluate.train_fractions=[]", "evaluate.train_fractions: ", "at least 1 item"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_path_and_the_cure(setting, begins, says):
    message = refused(setting)
    assert message.startswith(begins)
    assert says in message


def test_settings_of_two_sections_that_do_not_go_together_are_refused_by_name():
    told = refused("model.propagation=sampled", "rings.sharing=independent")
    assert told.startswith("model.propagation: ")
    assert "rings.sharing to shared" in told


@pytest.mark.parametrize(
    ("settings", "cure"),
    [
        (("model.encoder=sage", "model.self_loops=false"), "leave them out"),
        (("model.encoder=gat", "model.normalisation=mean"), "leave them out"),
        (("model.encoder=gat", "model.message_dropout=0.2"), "set message_dropout to 0"),
    ],
)
def test_what_an_encoder_cannot_do_with_its_messages_is_refused(settings, cure):
    told = refused(*settings)
    assert told.startswith("model: ")
    assert cure in told


def test_a_setting_without_section_or_value_is_refused():
    for setting in ("epochs=3", "train.epochs", "=3"):
        told = refused(setting)
        assert told.startswith(f"--set '{setting}': expected section.key=value, such as --set train.epochs=50")


def test_a_key_of_another_source_is_refused():
    assert refused(values={"graph": {"source": "digits", "path": "x"}}).startswith("graph.path: unknown key")


def test_settings_are_stronger_than_the_file(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("train:\n  epochs: 7\n  learning_rate: 1e-3\n")
    config = Config.load(file, ["train.epochs=9"])
    assert config.train.epochs == 9
    assert config.train.learning_rate == 0.001  # YAML reads 1e-3 as text


def test_every_file_that_is_no_config_is_refused(tmp_path):
    (tmp_path / "list.yaml").write_text("- 1\n")
    (tmp_path / "broken.yaml").write_text("a: [1\n")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "tag.yaml").write_text("train: !!python/object/apply:os.system ['true']\n")
    for name, says in [
        ("missing.yaml", "does not exist"),
        ("list.yaml", "expected sections"),
        ("broken.yaml", "not valid YAML"),
        ("binary.yaml", "not UTF-8"),
        ("tag.yaml", "not valid YAML"),
        ("", "is a folder"),
    ]:
        with pytest.raises(ConfigError, match=says):
            Config.load(tmp_path / name)


def test_the_environment_fills_paths_and_a_missing_name_is_explained(monkeypatch):
    values = {"graph": {"source": "npz", "path": "$SOME_FOLDER/cora.npz"}}
    monkeypatch.setenv("SOME_FOLDER", "/data")
    assert str(Config.parse(values).graph.path) == "/data/cora.npz"
    monkeypatch.delenv("SOME_FOLDER")
    assert "environment variable SOME_FOLDER is not set" in refused(values=values)


def test_a_path_may_begin_at_the_home_folder():
    values = {"graph": {"source": "tables", "edges": "~/e.csv", "nodes": "~n.csv"}}
    graph = Config.parse(values).graph
    assert (graph.edges, graph.nodes) == (Path.home() / "e.csv", Path("~n.csv"))


def test_the_resolved_config_reads_back_as_itself():
    config = Config.load(None, ["graph.source=tables", "graph.edges=e.csv", "rings.per_ring=ratio:0.2"])
    assert Config.parse(config.dump()) == config


def test_every_key_has_a_sentence_a_type_and_a_default():
    for key, kind, _, sentence in schema_rows():
        assert sentence.endswith("."), key
        assert kind


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner)))
def test_no_value_of_a_section_is_a_traceback(value):
    for section in ("graph", "train"):
        if value is not None and value != {}:
            with pytest.raises(ConfigError):
                Config.parse({section: value})


@pytest.mark.parametrize(
    ("num_nodes", "rare", "batch_size", "epochs"),
    [
        (1, False, 1024, 100),
        (2708, False, 1024, 100),
        (2708, True, 1024, 40),
        (3073, False, 1024, 75),
        (169_343, False, 1024, 2),
        (169_343, True, 1024, 1),
        (169_343, False, 4096, 8),
        (10_000_000, False, 1024, 1),
    ],
)
def test_epochs_and_dropout_follow_from_the_graph_until_they_are_set(num_nodes, rare, batch_size, epochs):
    size = GraphSize(num_nodes, rare)
    config = Config.parse({"train": {"batch_size": batch_size}})
    assert config.train.epochs == "auto"
    assert config.sized(size).train.num_epochs == epochs
    assert config.model.feature_dropout == "auto"
    assert config.sized(size).model.feature_dropout == (0.3 if rare else 0)
    given = Config.parse({"train": {"batch_size": batch_size, "epochs": 7}, "model": {"feature_dropout": 0.1}})
    assert given.sized(size) == given
    whole = Config.parse({"train": {"objective": "dgi"}})
    assert whole.sized(size).train.num_epochs == 100  # one step each
