"""JSON files with a checksum of their own, and logs with one JSON object per line."""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, overload

from gscl_scale.errors import FolderError
from gscl_scale.io.atomic import CURE, write_text
from gscl_scale.io.validate import checked, lines_of, parse_json, read_text_bytes, schema_error

_SEAL = "checksum"
_DEPTH = 3  # of a file in a run folder
Value = TypeVar("Value")


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Publish a JSON file; its last member is a checksum of all others."""
    plain = json.loads(json.dumps(value, default=str))
    write_text(path, json.dumps({**plain, _SEAL: _seal_of(plain)}, indent=2) + "\n")


def _who_writes(path: Path) -> str:
    """The command that writes a missing file of a run."""
    run = next((folder for folder in path.parents[:_DEPTH] if (folder / "run.json").exists()), None)
    return f"gscl-scale run --run {run} makes what is missing" if run else "run the stage that writes it first"


@overload
def read_json(path: Path) -> dict[str, Any]: ...


@overload
def read_json(path: Path, kind: type[Value], cure: str = CURE) -> Value: ...


def read_json(path: Path, kind: Any = dict[str, Any], cure: str = CURE) -> Any:
    """Read a JSON file that gscl-scale wrote, as a value of a kind such as a TypedDict.

    FolderError for a damaged file, and for a value of another kind.
    """
    if not path.exists():
        raise FolderError(f"{path} does not exist; {_who_writes(path)}")
    plain = parse_json(read_text_bytes(path), str(path), cure)
    if isinstance(plain, dict) and plain.pop(_SEAL, None) not in (None, _seal_of(plain)):
        raise FolderError(
            f"{path} is damaged or was changed by another program: its content does not match its {_SEAL}; {cure}"
        )
    return checked(kind, plain, str(path), cure)


def _seal_of(plain: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(plain).encode()):08x}"


def read_json_lines(path: Path, kind: Any = dict[str, Any]) -> list[Any]:
    """Read the complete lines of a JSON Lines file, up to the first that is damaged or of another kind.

    A file that does not exist has no lines.
    """
    lines = []
    for text in lines_of(path) if path.exists() else ():
        try:
            value = parse_json(text, str(path), "")
        except FolderError:
            break
        if schema_error(kind, value):
            break
        lines.append(value)
    return lines
