"""Kinds of files that are not read, and the command that reads, converts or unpacks them."""

import json
import shlex
from pathlib import Path

_GRAPHS = {
    ".graphml": "networkx.read_graphml({file})",
    ".gexf": "networkx.read_gexf({file})",
    ".gml": "networkx.read_gml({file})",
    ".npy": "numpy.load({file})",
    **dict.fromkeys((".pt", ".pth"), "torch.load({file}, weights_only=False)"),
}
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
        read, run = _GRAPHS[ending].format(file=json.dumps(name)), json.dumps(f"runs/{file.stem}")
        library, trust = read.partition(".")[0], ", if you trust whoever wrote it" if "torch" in read else ""
        fit = f"import {library}, gscl_scale; gscl_scale.fit({read}, run={run}, quiet=False)"
        return f"train on it{trust}: {_python(fit)}"
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
