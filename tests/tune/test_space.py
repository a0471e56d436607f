from pathlib import Path

import pytest
import yaml

from gscl_scale.config.config import Config
from gscl_scale.config.graph_size import GraphSize
from gscl_scale.errors import ConfigError
from gscl_scale.studies.tune.space import DEFAULT, Choice, Range, nearest, points_of, read_space, with_settings

CONFIG = Config()


def written(tmp_path, text):
    (tmp_path / "space.yaml").write_text(text)
    return tmp_path / "space.yaml"


def test_values_are_what_the_config_understands(tmp_path):
    lines = (
        'model.width: [16, "32"]',
        "rings.per_ring: [8, all]",
        "loss.temperature: [1, 0.5]",
        "train.learning_rate: {low: 1e-4, high: 1e-2, log: true}",
        "train.epochs: {low: 10, high: 20}",
    )
    space = read_space(written(tmp_path, "\n".join(lines)), CONFIG)
    assert space == {
        "model.width": Choice((16, 32)),
        "rings.per_ring": Choice((8, "all")),
        "loss.temperature": Choice((1.0, 0.5)),
        "train.learning_rate": Range(1e-4, 1e-2, log=True),
        "train.epochs": Range(10, 20),
    }
    assert [type(end) for end in (space["train.learning_rate"].low, space["train.epochs"].low)] == [float, int]


def test_keys_may_stand_below_their_sections_as_in_a_config(tmp_path):
    text = "model: {width: [16, 32]}\ntrain:\n  learning_rate: {low: 1e-4, high: 1e-2}\nmodel.layers: [1, 2]"
    assert read_space(written(tmp_path, text), CONFIG) == {
        "model.width": Choice((16, 32)),
        "train.learning_rate": Range(1e-4, 1e-2),
        "model.layers": Choice((1, 2)),
    }


def test_the_default_space_is_read_as_it_is_written(tmp_path):
    space = read_space(None, CONFIG)
    plain = {key: domain.plain() for key, domain in space.items()}
    assert plain == DEFAULT
    assert space["model.width"] == Choice((128, 256, 512, 1024))
    assert space["train.weight_decay"] == Range(1e-8, 1e-2, log=True)
    assert read_space(written(tmp_path, yaml.safe_dump(plain)), CONFIG) == space


def test_no_trial_of_the_default_space_is_spent_on_a_learning_rate_far_from_the_default():
    rates = read_space(None, CONFIG)["train.learning_rate"]
    assert rates == Range(1e-4, 1e-1, log=True)
    assert rates.low < CONFIG.train.learning_rate < rates.high


def test_an_objective_that_reads_no_samples_is_searched_without_rings_and_loss(tmp_path):
    config = Config.parse({"train": {"objective": "dgi"}})
    assert {key.partition(".")[0] for key in read_space(None, config)} == {"model", "train"}
    with pytest.raises(ConfigError, match=r"loss\.gate: has no effect with train\.objective: dgi; leave it out"):
        read_space(written(tmp_path, "loss.gate: [0.5, 1]"), config)


@pytest.mark.parametrize(
    ("domains", "points"),
    [
        ([Choice((1, 2)), Range(1, 3)], [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)]),
        ([Choice((1, 2)), Range(1.0, 3.0)], []),
        ([Range(1, 100), Range(1, 101)], []),
        ([Choice((1, 2)), Range(1, 10**20, log=True)], []),
    ],
)
def test_the_settings_of_a_space_are_told_where_they_are_few(domains, points):
    space = dict(zip(("model.layers", "train.epochs"), domains, strict=False))
    assert [tuple(point.values()) for point in points_of(space)] == points


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("train.learningrate: [0.1]", "train.learningrate: unknown key; did you mean learning_rate?"),
        ("model: [1]", "model."),
        ("trane.epochs: [1]", "trane.epochs: expected a key of rings, model, loss, train"),
        ("evaluate.seed: [1, 2]", "the rest is the same for all trials"),
        ("train.objective: [dgi, gscl]", "train.objective: is the same for all trials"),
        ("train.seed: [1, 2]", "train.seed: is the same for all trials; set it in the config"),
        ("model.layers: [1, 99]", "model.layers: input should be less than or equal to 8, got 99"),
        ("loss.gate: {low: 0.1, high: 2}", "loss.gate: input should be less than or equal to 1, got 2"),
        ("loss.gate: {low: 0.5, high: 0.1}", "loss.gate: expected low below high, got 0.5 and 0.1"),
        ("train.weight_decay: {low: 0, high: 0.1, log: true}", "expected low above 0 and low below high"),
        ("loss.gate: {low: 0.1, high: 1, log: yes please}", "expected true or false as log, got 'yes please'"),
        ("loss.gate: {low: 0.1}", "expected a list of values, or low and high"),
        ("loss.gate: 0.1", "expected a list of values, or low and high"),
        ("loss.gate: []", "expected a list of values, or low and high"),
        (f"loss.gate: {'x' * 5000}", "expected a list of values, or low and high"),
        ("model.width: [16, '16']", "model.width: expected different values"),
        ("rings.per_ring: {low: 4, high: all}", "expected numbers as low and high, got 4 and 'all'"),
        ("model.fanout: [[10], [5]]", "a search varies numbers, words and true or false, got [10]"),
        ("- model.width", "expected sections or keys with values, got list"),
        ("", "names no key"),
    ],
)
def test_a_wrong_space_is_refused_in_one_sentence_that_names_file_and_key(tmp_path, text, says):
    with pytest.raises(ConfigError) as refused:
        read_space(written(tmp_path, text), CONFIG)
    assert says in str(refused.value)
    assert "space.yaml" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 1000


def test_a_missing_space_file_is_named():
    with pytest.raises(ConfigError, match=r"space file nowhere.yaml does not exist; check --space"):
        read_space(Path("nowhere.yaml"), CONFIG)


def test_the_nearest_settings_are_those_of_the_config_where_the_space_has_them():
    space = {
        "model.width": Choice((128, 300)),
        "model.activation": Choice(("relu", "prelu")),
        "rings.per_ring": Choice(("all", 4)),
        "train.weight_decay": Range(1e-8, 1e-2, log=True),
        "train.epochs": Range(10, 50),
        "loss.temperature": Range(0.1, 0.9),
    }
    assert nearest(space, CONFIG.sized(GraphSize(1000))) == {
        "model.width": 300,
        "model.activation": "prelu",
        "rings.per_ring": "all",
        "train.weight_decay": 1e-8,
        "train.epochs": 50,
        "loss.temperature": 0.5,
    }


def test_settings_are_set_and_checked_together():
    config = with_settings(CONFIG, {"model.layers": 2, "train.learning_rate": 0.5})
    assert (config.model.layers, config.train.learning_rate) == (2, 0.5)
    with pytest.raises(ConfigError, match=r"set train.validate_every"):
        with_settings(CONFIG, {"train.patience": 3})
