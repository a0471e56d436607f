"""The space of a search: keys of the configuration, and the values that each may take."""

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gscl_scale.config.config import Config
from gscl_scale.config.read import read_yaml
from gscl_scale.errors import ConfigError
from gscl_scale.text import quoted

Value = bool | int | float | str
Settings = Mapping[str, Value]

# The ranges of the paper, and two of ours: its encoder has no dropout of features, and its learning rates go from 1e-8
# to 1e-2, so that two thirds of the first trials would lie below 1e-4, where a few hundred steps of Adam change little.
DEFAULT: Mapping[str, object] = {
    "rings.hops": [1, 2, 3, 4],
    "model.width": [128, 256, 512, 1024],
    "model.layers": [1, 2],
    "model.activation": ["relu", "prelu", "rrelu"],
    "model.feature_dropout": {"low": 0.0, "high": 0.8},
    "loss.ranking": ["listwise", "pairwise"],
    "loss.temperature": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9],
    "loss.temperature_step": [0.0, 0.0125, 0.025, 0.05, 0.1],
    "loss.gate": {"low": 1e-4, "high": 1.0, "log": True},
    "train.learning_rate": {"low": 1e-4, "high": 1e-1, "log": True},
    "train.weight_decay": {"low": 1e-8, "high": 1e-2, "log": True},
}
_SECTIONS = ("rings", "model", "loss", "train")
_FEW = 10_000  # settings, among which no two trials should be alike
_OF_SAMPLES = ("rings", "loss")  # what other objectives than gscl do not read
_FIXED = (
    "rings.ahead",
    "rings.disk_gb",
    "rings.seed",
    "train.objective",
    "train.repeats",
    "train.seed",
    "train.validate_every",
)


@dataclass(frozen=True)
class Choice:
    """One of some values."""

    values: tuple[Value, ...]

    def nearest(self, value: Value) -> Value:
        """The value itself, or the number that is closest to it, or the first."""
        if value in self.values or not all(_is_number(each) for each in (value, *self.values)):
            return value if value in self.values else self.values[0]
        return min(self.values, key=lambda each: abs(float(each) - float(value)))

    def plain(self) -> list[Value]:
        """As it is written in YAML."""
        return list(self.values)


@dataclass(frozen=True)
class Range:
    """A number from `low` to `high`, an integer if these are; `log`: each power of ten is as likely."""

    low: float
    high: float
    log: bool = False

    def nearest(self, value: Value) -> Value:
        """The value itself, or the end of the range that is closest to it."""
        return min(max(value, self.low), self.high) if isinstance(value, (int, float)) else self.low

    @property
    def values(self) -> Sequence[Value]:
        """Its values; none where they are too many to count."""
        low, high = self.low, self.high
        if isinstance(low, int) and isinstance(high, int) and high - low < _FEW:
            return range(low, high + 1)
        return ()

    def plain(self) -> dict[str, Value]:
        """As it is written in YAML."""
        return {"low": self.low, "high": self.high, **({"log": True} if self.log else {})}


Space = dict[str, Choice | Range]


def read_space(path: Path | None, config: Config, fixed: Collection[str] | None = None) -> Space:
    """The space of a YAML file, or the default one; every value is checked with the configuration.

    A space for several methods has `fixed`, the keys that make this one: these are left out, and what it does not read.
    """
    if path is None:
        return {
            key: _domain(key, given, config) for key, given in DEFAULT.items() if _is_free(key, config, fixed or ())
        }
    written = _flat(read_yaml(path, "space"))
    if not written:
        raise ConfigError(f"space file {path} names no key; write lines such as 'model.width: [128, 256]'")
    if fixed is not None:
        written = {key: given for key, given in written.items() if _is_free(key, config, fixed)}
    try:
        return space_of(written, config)
    except ConfigError as error:
        raise ConfigError(f"space file {path}: {error}") from None


def space_of(written: Mapping[str, object], config: Config) -> Space:
    """A space as it is written; ConfigError for a key or value that the configuration does not take."""
    return {key: _domain(key, given, config) for key, given in written.items()}


def _flat(written: Mapping[str, object]) -> dict[str, object]:
    """Keys with dots, also of sections with keys below them, as a config has them."""
    flat: dict[str, object] = {}
    for key, given in written.items():
        flat |= (
            {f"{key}.{name}": value for name, value in given.items()}
            if isinstance(given, dict) and key in _SECTIONS
            else {str(key): given}
        )
    return flat


def with_settings(config: Config, settings: Mapping[str, object]) -> Config:
    """The configuration with some keys set."""
    values = config.dump()
    for key, value in settings.items():
        section, _, name = key.partition(".")
        values[section] = {**values.get(section, {}), name: value}
    return Config.parse(values)


def nearest(space: Space, config: Config) -> dict[str, Value]:
    """The settings of the space that are closest to the configuration."""
    return {key: domain.nearest(_value(config, key)) for key, domain in space.items()}


def points_of(space: Space) -> list[dict[str, Value]]:
    """All settings of a space where they are few enough to be tried once each; else none."""
    values = [domain.values for domain in space.values()]
    if math.prod(map(len, values)) > _FEW:
        return []
    return [dict(zip(space, point, strict=True)) for point in itertools.product(*values)]


def untried(space: Space, tried: Collection[Settings]) -> list[dict[str, Value]]:
    """The settings that no trial has had yet, where they can be counted; else none."""
    return [point for point in points_of(space) if point not in tried]


def _is_read(key: str, config: Config) -> bool:
    """Whether the objective reads a key."""
    return config.train.reads_samples or key.partition(".")[0] not in _OF_SAMPLES


def _is_free(key: str, config: Config, fixed: Collection[str]) -> bool:
    return _is_read(key, config) and key not in fixed


def _domain(key: str, given: object, config: Config) -> Choice | Range:
    if key.partition(".")[0] not in _SECTIONS:
        raise ConfigError(f"{key}: expected a key of {', '.join(_SECTIONS)}; the rest is the same for all trials")
    if not _is_read(key, config):
        raise ConfigError(f"{key}: has no effect with train.objective: {config.train.objective}; leave it out")
    if key in _FIXED:
        raise ConfigError(f"{key}: is the same for all trials; set it in the config")
    if isinstance(given, list) and given:
        values = tuple(_checked(key, value, config) for value in given)
        if len(set(values)) < len(values):
            raise ConfigError(f"{key}: expected different values, got {quoted(given)}")
        return Choice(values)
    if isinstance(given, dict) and {"low", "high"} <= set(given) <= {"low", "high", "log"}:
        low, high = (_checked(key, given[end], config) for end in ("low", "high"))
        return _range(key, low, high, given.get("log", False))
    raise ConfigError(
        f"{key}: expected a list of values, or low and high and, if wanted, log: true; got {quoted(given)}"
    )


def _range(key: str, low: Value, high: Value, log: object) -> Range:
    if not (_is_number(low) and _is_number(high)):
        raise ConfigError(
            f"{key}: expected numbers as low and high, got {quoted(low)} and {quoted(high)}; give a list of values"
        )
    if not isinstance(log, bool):
        raise ConfigError(f"{key}: expected true or false as log, got {quoted(log)}")
    low, high = (end if isinstance(end, int) else float(end) for end in (low, high))
    if low >= high or (log and low <= 0):
        least = "low above 0 and " if log else ""
        raise ConfigError(f"{key}: expected {least}low below high, got {low:g} and {high:g}")
    return Range(low, high, log)


def _checked(key: str, given: object, config: Config) -> Value:
    """The value as the configuration understands it."""
    value = _value(with_settings(config, {key: given}), key)
    if not isinstance(value, (bool, int, float, str)):
        raise ConfigError(
            f"{key}: a search varies numbers, words and true or false, got {quoted(given)}; set it in the config"
        )
    return value


def _value(config: Config, key: str) -> Value:
    section, _, name = key.partition(".")
    value: Value = getattr(getattr(config, section), name)
    return value


def _is_number(value: Value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
