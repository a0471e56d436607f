"""Values from YAML, `--set` and the environment, before any of them is checked."""

import os
import string
from pathlib import Path
from typing import Any

import yaml

from gscl_scale.config.graphs import PATHS, TABLES
from gscl_scale.errors import ConfigError
from gscl_scale.io.validate import size_of
from gscl_scale.storage.urls import url_of
from gscl_scale.text import holds_secret, quoted, shortened

_MOST_BYTES = 1 << 20
_MOST_VALUES = 100_000  # of a file, aliases counted as often as they are used
_DEEPEST = 50
_DAMAGE = (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError, KeyError)  # dates, numbers, merges
_SECRET = ("SECRET", "TOKEN", "PASSWORD", "PASSWD", "CREDENTIAL", "PRIVATE", "ACCESS_KEY", "API_KEY", "SESSION")


def read_yaml(path: Path, kind: str = "config") -> dict[str, Any]:
    """The values of a YAML file that an option named as its kind gives."""
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
        reason = f"more than {_DEEPEST} levels" if isinstance(error, RecursionError) else shortened(error)
        raise ConfigError(f"{where} is not valid YAML: {reason}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{where}: expected sections or keys with values, got {type(values).__name__}")
    return values


def apply_setting(values: dict[str, Any], setting: str, option: str = "--set ") -> None:
    """Put the `section.key=value` of an option among the values."""
    dotted, equals, text = setting.partition("=")
    section, dot, name = dotted.strip().partition(".")
    if not (equals and dot and name):
        raise ConfigError(f"{option}{quoted(setting)}: expected section.key=value, such as {option}train.epochs=50")
    try:
        value = _plain_values(text[: _MOST_BYTES + 1])
    except _DAMAGE:
        typed = f"'{dotted}=\"{text}\"'"
        plain = text.isprintable() and not {*text} & {*"'\"\\"}
        example = f", such as {option}{typed}" if plain and len(typed) < 80 else ""
        raise ConfigError(
            f"{shortened(dotted)}: cannot read the value {quoted(text)}; put text with special characters in quotes, "
            f"which the shell must leave{example}"
        ) from None
    if values.get(section) is None:
        values[section] = {}
    if not isinstance(values[section], dict):
        raise ConfigError(
            f"{shortened(section)}: expected a section with keys, got {quoted(values[section])}; write keys below "
            f"'{shortened(section)}:'"
        )
    values[section][name] = value


def _plain_values(text: str) -> Any:
    """The values of a YAML text: plain ones only, each key once, and no more than somebody could have written out."""
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _refuse_bombs(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _refuse_bombs(root: yaml.Node) -> None:
    """Refuse duplicate keys, and aliases that multiply values or contain themselves."""
    waiting, seen = [(root, 0)], 0
    while waiting:
        node, depth = waiting.pop()
        if (seen := seen + 1) > _MOST_VALUES or depth > _DEEPEST:
            raise yaml.YAMLError(f"more than {_MOST_VALUES:,} values or {_DEEPEST} levels, with every alias expanded")
        if isinstance(node, yaml.MappingNode):
            _refuse_duplicates(node)
            waiting += [(part, depth + 1) for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            waiting += [(part, depth + 1) for part in node.value]


def _refuse_duplicates(node: yaml.MappingNode) -> None:
    keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
    if len(set(keys)) < len(keys):
        twice = next(key for at, key in enumerate(keys) if key in keys[:at])
        raise yaml.YAMLError(
            f"the key {shortened(twice, 60)} is given twice, line {node.start_mark.line + 1} and after"
        )


def expand_paths(graph: dict[str, Any]) -> dict[str, Any]:
    """Replace $NAME and ~ in the paths of the graph section; refuse URLs but those of tables."""
    return {
        name: _expanded(name, value) if name in PATHS and isinstance(value, str) else value
        for name, value in graph.items()
    }


def _expanded(name: str, path: str) -> str:
    template = string.Template(path)
    for variable in template.get_identifiers():
        shown = shortened(variable, 60)
        if any(word in variable.upper() for word in _SECRET):
            raise ConfigError(
                f"graph.{name}: ${shown} looks like a secret, and paths are written into records and logs; "
                "name another environment variable, or write the full path"
            )
        if variable not in os.environ:
            raise ConfigError(
                f"graph.{name}: the environment variable {shown} is not set; "
                f"export {shown}=FOLDER, or write the full path with --set graph.{name}=PATH"
            )
    try:
        path = template.substitute(os.environ) if "$" in path else path
    except ValueError:
        raise ConfigError(f"graph.{name}: expected $NAME in {quoted(path)}, got a lone $; write $$ for it") from None
    path = str(Path.home() / path[2:]) if path.startswith("~/") else path
    in_store = name in TABLES and bool(url_of(Path(path)))
    if "://" in path and not in_store and not holds_secret(path):  # a secret is refused by a message that hides it
        raise ConfigError(
            f"graph.{name}: {shortened(path)} is a URL; expected a local path: copy or mount it "
            "(tables may be at s3://, gs:// and az:// URLs)"
        )
    return path


def refuse_secrets(values: Any, place: str = "") -> None:
    """Refuse secrets, because settings are written into records, pages and logs."""
    if isinstance(values, dict):
        for key, value in values.items():
            refuse_secrets(value, f"{place}.{shortened(key, 60)}".lstrip("."))
    elif isinstance(values, list):
        for value in values:
            refuse_secrets(value, place)
    elif isinstance(values, str) and holds_secret(values):
        raise ConfigError(
            f"{place}: the value looks like a secret, and settings are written into records and logs; set it in the "
            "environment, or in a file that your command reads"
        )
