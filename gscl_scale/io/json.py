"""JSON files with a checksum of their own, and logs of one object a line."""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gscl_scale.errors import FolderError
from gscl_scale.io.atomic import _CURE, write_text
from gscl_scale.io.validate import checked, lines_of, of_kind, parse_json, read_text_bytes

_SEAL = "checksum"


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Publish a JSON file; its last member is a checksum of all others."""
    plain = json.loads(json.dumps(value, default=str))
    write_text(path, json.dumps({**plain, _SEAL: _seal_of(plain)}, indent=2) + "\n")


def read_json(path: Path, kind: Any = dict[str, Any], cure: str = _CURE) -> dict[str, Any]:
    """Read a JSON value of a kind, such as a TypedDict, that gscl-scale wrote."""
    if not path.exists():
        raise FolderError(f"{path} does not exist; run the stage that writes it first")
    plain = parse_json(read_text_bytes(path), str(path), cure)
    if isinstance(plain, dict) and plain.pop(_SEAL, None) not in (None, _seal_of(plain)):
        raise FolderError(
            f"{path}: its content does not fit its {_SEAL}, it is damaged or was changed by another program; {cure}"
        )
    values: dict[str, Any] = checked(kind, plain, str(path), cure)
    return values


def _seal_of(plain: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(plain).encode()):08x}"


def read_json_lines(path: Path, kind: Any = dict[str, Any]) -> list[Any]:
    """The whole lines of a file of JSON lines, none if it is not there; one of another kind, or cut off, ends them."""
    lines = []
    for text in lines_of(path) if path.exists() else ():
        try:
            value = parse_json(text, str(path), "")
        except FolderError:
            break
        if of_kind(kind, value):
            break
        lines.append(value)
    return lines
