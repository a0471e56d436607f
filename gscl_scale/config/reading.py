"""Values from YAML, `--set` and the environment, before any of them is checked."""

import os
import string
from pathlib import Path
from typing import Any

import yaml

from gscl_scale.errors import ConfigError


def read_yaml(path: Path, kind: str = "config") -> dict[str, Any]:
    """The values of a YAML file that is named by the option of its kind."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{kind} file {path} does not exist; check --{kind}") from None
    except IsADirectoryError:
        raise ConfigError(f"{kind} file {path} is a folder; give --{kind} a YAML file") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{kind} file {path} is not UTF-8 text; give --{kind} a YAML file") from None
    except yaml.YAMLError as error:
        where = " ".join(str(error).split())
        raise ConfigError(f"{kind} file {path} is not valid YAML: {where}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{kind} file {path}: expected sections or keys with values, got {type(values).__name__}")
    return values


def apply_setting(values: dict[str, Any], setting: str) -> None:
    """Put a `section.key=value` among the values."""
    dotted, equals, text = setting.partition("=")
    section, dot, name = dotted.strip().partition(".")
    if not (equals and dot and name):
        raise ConfigError(f"--set {setting!r}: expected section.key=value, such as --set train.epochs=50")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(f"{dotted}: cannot read the value {text!r}; put text with special signs in quotes") from None
    part = values.setdefault(section, {})
    if part is None:
        part = values[section] = {}
    if not isinstance(part, dict):
        raise ConfigError(f"{section}: expected a section with keys, got {part!r}; write keys below '{section}:'")
    part[name] = value


def expand_paths(graph: dict[str, Any]) -> dict[str, Any]:
    """Replace $NAME in the paths of the graph section by the environment's value."""
    expanded = {}
    for name, value in graph.items():
        if name in ("path", "edges", "nodes") and isinstance(value, str) and "$" in value:
            try:
                value = string.Template(value).substitute(os.environ)
            except KeyError as error:
                raise ConfigError(
                    f"graph.{name}: the environment variable {error.args[0]} is not set; "
                    f"export {error.args[0]}=FOLDER, or write the path in full with --set graph.{name}=PATH"
                ) from None
            except ValueError:
                raise ConfigError(f"graph.{name}: expected $NAME in {value!r}, got a lone $; write $$ for it") from None
        expanded[name] = value
    return expanded
