"""Kinds of files that are not read, and the command that reads, converts or unpacks them."""

import json
import shlex
from pathlib import Path

_GRAPHS = {".graphml": "read_graphml", ".gexf": "read_gexf", ".gml": "read_gml"}
_TABLES = {
    ".feather": ("feather", "read_table"),
    ".arrow": ("feather", "read_table"),
    ".orc": ("orc", "read_table"),
    ".jsonl": ("json", "read_json"),
    ".ndjson": ("json", "read_json"),
}
_SHEETS, _ARCHIVE = "libreoffice --headless --convert-to csv {file}", "tar -xf {file}"
_COMMANDS = {
    ".xlsx": _SHEETS,
    ".xls": _SHEETS,
    ".ods": _SHEETS,
    ".zip": "unzip {file} -d {stem}",
    ".tgz": _ARCHIVE,
    ".tar": _ARCHIVE,
    ".bz2": "bunzip2 --keep {file}",
    ".xz": "unxz --keep {file}",
}


def advice(file: Path) -> str:
    """What to do with a file of a kind that is not read."""
    name, stem, ending = str(file), str(file.with_suffix("")), file.suffix.lower()
    if name.lower().endswith(".tar.gz"):
        ending = ".tar"
    if ending in _GRAPHS:
        read, run = f"networkx.{_GRAPHS[ending]}({json.dumps(name)})", json.dumps(f"runs/{file.stem}")
        return f"train on it: {_python(f'import networkx, gscl_scale; gscl_scale.fit({read}, run={run}, quiet=False)')}"
    if ending in _TABLES:
        module, read = _TABLES[ending]
        written = f"{module}.{read}({json.dumps(name)}), {json.dumps(stem + '.parquet')}"
        return f"convert it: {_python(f'from pyarrow import {module}, parquet; parquet.write_table({written})')}"
    if ending in _COMMANDS:
        what = "convert" if _COMMANDS[ending] is _SHEETS else "unpack"
        return f"{what} it: {_COMMANDS[ending].format(file=shlex.quote(name), stem=shlex.quote(stem))}"
    return "rename it, or convert it to an edge list"


def _python(code: str) -> str:
    return shlex.join(["python", "-c", code])
