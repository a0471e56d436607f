"""Files that anybody may have written: inspected before they are opened, and checked before they are used."""

import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError
from pydantic_core import from_json
from typing_extensions import TypedDict

from gscl_scale.errors import FolderError, GraphError, UserError
from gscl_scale.machine import available_memory
from gscl_scale.text import format_bytes, quoted, shortened

_SMALL = 1 << 22  # bytes of text that are read whatever memory is left
_BYTES_OF_VALUES = 40  # that a byte of JSON may become in memory
_LONGEST_LINE = 1 << 22
_LONGEST_NAME = 255  # bytes, on most filesystems
_LONGEST_PATH = 1024


def _is_file_name(name: str) -> bool:
    short = len(name.encode("utf-8", "replace")) <= _LONGEST_NAME
    return short and name not in ("", ".", "..") and "/" not in name and name.isprintable()


def _file_name(name: str) -> str:
    if not _is_file_name(name):
        raise ValueError("expected the name of a file")
    return name


def _name_below(name: str) -> str:
    if len(name) >= _LONGEST_PATH or not all(map(_is_file_name, name.split("/"))):
        raise ValueError("expected a path below its folder")
    return name


def _fits_float(value: object) -> object:
    if isinstance(value, int) and abs(value) > 1 << 62:
        raise ValueError("expected a number that fits a float")
    return value


Number = Annotated[float, BeforeValidator(_fits_float)]
Count = Annotated[int, Field(ge=0, lt=2**62)]
Positive = Annotated[Count, Field(ge=1)]
Finite = Annotated[float, Field(ge=-1e12, le=1e12)]
FileName = Annotated[str, AfterValidator(_file_name)]
NameBelow = Annotated[str, AfterValidator(_name_below)]


class FileEntry(TypedDict):
    """A file in a manifest."""

    bytes: Count
    sha256: str


def state_of(path: Path) -> tuple[int, int]:
    """Size and time of a file; of one that is not there no time is right."""
    if not path.exists():
        return 0, 0
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def size_of(path: Path, error: type[UserError] = FolderError) -> int:
    """Bytes of a regular file; anything else is refused, for opening a pipe or a device may never end."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise error(f"{shortened(path)} does not exist") from None
    except (OSError, ValueError) as trouble:
        raise error(f"{shortened(path)} cannot be read: {shortened(getattr(trouble, 'strerror', trouble))}") from None
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a device, pipe or socket"
        raise error(f"{shortened(path)} is {kind}, expected a regular file; replace it")
    return status.st_size


def refuse_special(folder: Path) -> None:
    """Refuse a folder that holds anything but folders and regular files: other programs would open it."""
    for path in sorted(folder.rglob("*")):
        if not path.is_dir():
            size_of(path, GraphError)


def read_text_bytes(path: Path) -> bytes:
    """Read a text file that is parsed next; refuse one whose values may not fit the memory."""
    size = size_of(path)
    if size > _SMALL and _BYTES_OF_VALUES * size > (memory := available_memory()):
        raise FolderError(
            f"{path} has {format_bytes(size)} of text, which may take {format_bytes(_BYTES_OF_VALUES * size)} of "
            f"memory ({format_bytes(memory)} available); gscl-scale writes no file that large: delete it"
        )
    return path.read_bytes()


def parse_json(text: bytes, where: str, cure: str) -> Any:
    """Parse JSON; FolderError that names the place for anything else, however deep or long it is."""
    try:
        return from_json(text)
    except ValueError as error:
        raise FolderError(f"{where} is damaged: not valid JSON ({shortened(error)}); {cure}") from None


def schema_error(kind: Any, value: Any) -> str:
    """Describe what is wrong with a value of a kind, such as a TypedDict; "" if nothing is."""
    try:
        _adapter(kind).validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = shortened(".".join(shortened(part, 40) for part in first["loc"]), 120)
        if first["type"] == "missing":
            return f"it lacks {place}"
        expected = "expected a JSON object" if first["type"] == "dict_type" else shortened(first["msg"], 160)
        return f"{place}{': ' * bool(place)}{expected}, got {quoted(first['input'])}"
    return ""


def checked(kind: Any, value: Any, where: str, cure: str) -> Any:
    """Return the value as one of that kind; FolderError that names the place and what is wrong there."""
    if flaw := schema_error(kind, value):
        raise FolderError(f"{where} is damaged: {flaw}; {cure}")
    return value


def lines_of(path: Path) -> Iterator[bytes]:
    """Yield the lines of a text file, except those that are longer than any that gscl-scale writes."""
    size_of(path)
    with path.open("rb") as file:
        complete = True
        while line := file.readline(_LONGEST_LINE):
            ends = line.endswith(b"\n")
            if complete and (ends or len(line) < _LONGEST_LINE):
                yield line
            complete = ends


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
