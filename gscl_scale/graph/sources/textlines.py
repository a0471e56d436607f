"""Lines of a text file, for messages: the first one that is not UTF-8."""

import io
import re
import shlex
from pathlib import Path, PurePath

from gscl_scale.graph.sources.dialect import open_packed

_UNPACK = {".gz": "gzip -dc", ".zst": "zstd -dc"}
_TABLE = re.compile(r"(\.\w+)(\.gz|\.zst)?$")


def encoding_flaw(path: Path, shown: str, encoding: str = "WINDOWS-1252") -> str:
    """What is wrong with a text file of another encoding, and the command that converts it."""
    line = 1 if encoding == "UTF-16" else _first_other_line(path)
    name = PurePath(shown).name if "://" in shown else shown  # of a file of an object store: that of your copy
    target = shlex.quote(_TABLE.sub(r"-utf8\1", name))
    convert, file = f"iconv -f {encoding} -t UTF-8", shlex.quote(name)
    unpack = _UNPACK.get(PurePath(name).suffix.lower())
    command = f"{unpack} {file} | {convert} > {target}" if unpack else f"{convert} {file} > {target}"
    likely = "" if encoding == "UTF-16" else ", if that is its encoding"
    return f"{shown}: line {line:,} is not UTF-8 text; convert the file{likely}: {command}"


def _first_other_line(path: Path) -> int:
    """The number of the first line that is not UTF-8."""
    with open_packed(path) as packed, io.BufferedReader(packed) as file:  # type: ignore[type-var]  # has readinto
        return next((number for number, line in enumerate(file, start=1) if not _is_utf_8(line)), 1)


def _is_utf_8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
