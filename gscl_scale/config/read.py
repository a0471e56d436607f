"""Values from YAML, `--set` and the environment, before any of them is checked."""

import os
import string
from pathlib import Path
from typing import Any

import yaml

from gscl_scale.errors import ConfigError
from gscl_scale.io.validate import size_of
from gscl_scale.text import holds_secret, quoted, shortened

_MOST_BYTES = 1 << 20
_MOST_VALUES = 100_000  # of a file, aliases counted as often as they are used
_DEEPEST = 50
_DAMAGE = (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError, KeyError)  # dates, numbers, merges
_SECRET = ("SECRET", "TOKEN", "PASSWORD", "PASSWD", "CREDENTIAL", "PRIVATE", "ACCESS_KEY", "API_KEY", "SESSION")


def read_yaml(path: Path, kind: str = "config") -> dict[str, Any]:
    """The values of a YAML file that is named by the option of its kind."""
    where, cure = f"{kind} file {path}", f"give --{kind} a YAML file"
    if not path.exists():
        raise ConfigError(f"{where} does not exist; check --{kind}")
    if path.is_dir():
        raise ConfigError(f"{where} is a folder; {cure}")
    if (size := size_of(path, ConfigError)) > _MOST_BYTES:
        raise ConfigError(f"{where} has {size:,} bytes, expected at most {_MOST_BYTES:,}; {cure}")
    try:
        values = _plain_values(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ConfigError(f"{where} is not UTF-8 text; {cure}") from None
    except _DAMAGE as error:
        raise ConfigError(f"{where} is not valid YAML: {_reason(error)}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{where}: expected sections or keys with values, got {type(values).__name__}")
    return values


def apply_setting(values: dict[str, Any], setting: str, option: str = "--set ") -> None:
    """Put a `section.key=value`, which an option has brought, among the values."""
    dotted, equals, text = setting.partition("=")
    section, dot, name = dotted.strip().partition(".")
    if not (equals and dot and name):
        raise ConfigError(f"{option}{quoted(setting)}: expected section.key=value, such as {option}train.epochs=50")
    try:
        value = _plain_values(text[: _MOST_BYTES + 1])
    except _DAMAGE:
        raise ConfigError(
            f"{shortened(dotted)}: cannot read the value {quoted(text)}; put text with special signs in quotes"
        ) from None
    part = values.setdefault(section, {})
    if part is None:
        part = values[section] = {}
    if not isinstance(part, dict):
        raise ConfigError(
            f"{shortened(section)}: expected a section with keys, got {quoted(part)}; write keys below "
            f"'{shortened(section)}:'"
        )
    part[name] = value


def _plain_values(text: str) -> Any:
    """The values of a YAML text: plain ones only, each key once, and no more than somebody could have written out."""
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _look_through(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _look_through(root: yaml.Node) -> None:
    """Refuse keys that are given twice, and values that aliases make many of, or one of itself."""
    waiting, seen = [(root, 0)], 0
    while waiting:
        node, depth = waiting.pop()
        if (seen := seen + 1) > _MOST_VALUES or depth > _DEEPEST:
            raise yaml.YAMLError(f"more than {_MOST_VALUES:,} values or {_DEEPEST} levels, aliases written out")
        if isinstance(node, yaml.MappingNode):
            _refuse_twice(node)
            waiting += [(part, depth + 1) for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += [(part, depth + 1) for part in node.value]


def _refuse_twice(node: yaml.MappingNode) -> None:
    keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
    if len(set(keys)) < len(keys):
        twice = next(key for at, key in enumerate(keys) if key in keys[:at])
        raise yaml.YAMLError(
            f"the key {shortened(twice, 60)} is given twice, line {node.start_mark.line + 1} and after"
        )


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return f"more than {_DEEPEST} levels"
    return shortened(error)


def expand_paths(graph: dict[str, Any]) -> dict[str, Any]:
    """Replace $NAME in the paths of the graph section by the environment's value; refuse URLs."""
    expanded = {}
    for name, value in graph.items():
        if name in ("path", "edges", "nodes") and isinstance(value, str) and "$" in value:
            try:
                _refuse_secret_variables(name, value)
                value = string.Template(value).substitute(os.environ)
            except KeyError as error:
                missing = shortened(error.args[0], 60)
                raise ConfigError(
                    f"graph.{name}: the environment variable {missing} is not set; "
                    f"export {missing}=FOLDER, or write the path in full with --set graph.{name}=PATH"
                ) from None
            except ConfigError:
                raise
            except ValueError:
                raise ConfigError(
                    f"graph.{name}: expected $NAME in {quoted(value)}, got a lone $; write $$ for it"
                ) from None
        if name in ("path", "edges", "nodes") and isinstance(value, str) and "://" in value and not holds_secret(value):
            raise ConfigError(
                f"graph.{name}: {shortened(value)} is a URL; expected a path of this machine: copy or mount it"
            )
        expanded[name] = value
    return expanded


def refuse_secrets(values: Any, place: str = "") -> None:
    """Settings are written into records, pages and logs: what is secret does not belong there."""
    if isinstance(values, dict):
        for key, value in values.items():
            refuse_secrets(value, f"{place}.{shortened(key, 60)}".lstrip("."))
    elif isinstance(values, list):
        for value in values:
            refuse_secrets(value, place)
    elif isinstance(values, str) and holds_secret(values):
        raise ConfigError(
            f"{place}: expected a value without secrets, which would be written into records and logs; set them in the "
            "environment, or in a file that a command of yours reads"
        )


def _refuse_secret_variables(name: str, path: str) -> None:
    for variable in string.Template(path).get_identifiers():
        if any(word in variable.upper() for word in _SECRET):
            raise ConfigError(
                f"graph.{name}: ${shortened(variable, 60)} looks like a secret, and paths are written into records and "
                "logs; name another environment variable, or write the path in full"
            )
