"""What is in the files of a run folder: digests of content where it is exact, numbers where a processor may round.

A digest is taken of the columns and not of the file, whose bytes change with the version of pyarrow.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_FEW = 6  # columns of a row of numbers
_DIGITS = 16  # of a digest: no chance of an accident, and it fits on a line


def digest(arrays) -> str:
    """The first digits of the sha256 of dtypes, shapes and bytes; None among the arrays counts as well."""
    sha = hashlib.sha256()
    for array in arrays:
        if array is None:
            sha.update(b"none")
            continue
        array = np.ascontiguousarray(array)
        sha.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
    return sha.hexdigest()[:_DIGITS]


def columns(table: pa.Table) -> dict[str, str]:
    """Each column by name, as "TYPE[ROWS] DIGEST"."""
    return {name: _column(table.column(name).combine_chunks()) for name in table.column_names}


def _column(column: pa.Array) -> str:
    return f"{_kind(column.type)}[{len(column)}] {digest(_arrays(column))}"


def _kind(kind: pa.DataType) -> str:
    """The type in our own words: pyarrow changes its spelling of lists between versions."""
    if pa.types.is_fixed_size_list(kind):
        return f"{kind.list_size} x {_kind(kind.value_type)}"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list of {_kind(kind.value_type)}"
    return str(kind)


def _arrays(column: pa.Array):
    if pa.types.is_fixed_size_list(column.type):
        return _arrays(column.flatten())
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return [column.value_lengths().to_numpy(), *_arrays(column.flatten())]
    if pa.types.is_float64(column.type):
        # draws go through the logarithm of the C library, whose last bit depends on the processor
        return [column.to_numpy().astype(np.float32)]
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return [column.to_numpy()]
    return [np.frombuffer(json.dumps(column.to_pylist()).encode(), np.uint8)]


def arrow(path: Path) -> pa.Table:
    """A table in an Arrow file."""
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


def graph_content(folder: Path) -> dict[str, object]:
    """A graph folder: all files, and what the manifest counts."""
    manifest = json.loads((folder / "manifest.json").read_text())
    counted = (
        "format", "name", "undirected", "num_nodes", "num_entries", "edges_given", "self_loops", "index_type",
        "num_features", "feature_columns", "classes", "splits",
    )  # fmt: skip
    files = {path.name: columns(arrow(path)) for path in sorted(folder.glob("*.arrow"))}
    return {"manifest": {name: manifest[name] for name in counted}, **files}


def samples_content(folder: Path) -> dict[str, object]:
    """A samples folder: all files, and what the manifest counts."""
    manifest = json.loads((folder / "manifest.json").read_text())
    counted = ("format", "num_nodes", "index_type", "rounds_asked", "mean_ring_size", "mean_stored")
    parts = [
        [part[name] for name in ("round_number", "part", "anchors", "rows", "members", "ring_size_sum")]
        for one in manifest["rounds"]
        for part in one["parts"]
    ]
    files = {str(path.relative_to(folder)): columns(arrow(path)) for path in sorted(folder.rglob("*.arrow"))}
    return {"manifest": {**{name: manifest[name] for name in counted}, "parts": parts}, **files}


def steps(log: Path) -> list[dict]:
    """The training steps of a log."""
    events = map(json.loads, log.read_text().splitlines())
    return [event for event in events if (event["stage"], event["event"]) == ("train", "step")]


def curve(log: Path) -> dict[str, object]:
    """The loss of each step, its parts in the last one, and what the steps read."""
    taken = steps(log)
    counts = {name: [step[name] for step in taken] for name in ("epoch", "anchors", "nodes", "negatives")}
    last = {name: taken[-1].get(name) for name in ("per_level", "hop_zero", "gated", "negatives_per_anchor")}
    return {
        "counts": counts,
        "losses": [short(step["loss"]) for step in taken],
        "gradient norms": [short(taken[at]["gradient_norm"]) for at in (0, -1)],
        "last step": short(last),
    }


def embeddings_content(path: Path) -> dict[str, object]:
    """Ids exactly, the vectors as numbers."""
    table = pq.read_table(path)
    kind = _kind(table.column("embedding").type)
    return {**columns(table.select(["id"])), "type": kind, "vectors": _numbers(_matrix(table.column("embedding")))}


def number_columns(path: Path) -> dict[str, object]:
    """The columns of a file whose floats a processor may round otherwise."""
    table = arrow(path)
    return {name: _numbers(_matrix(table.column(name))) for name in table.column_names}


def _matrix(column: pa.ChunkedArray) -> np.ndarray:
    return np.stack(column.to_numpy())


def _numbers(rows: np.ndarray) -> dict[str, object]:
    """Three rows, and what all rows have in common, of the first columns."""
    few = {f"row {at}": short(rows[at, :_FEW].tolist()) for at in (0, len(rows) // 2, -1)}
    return {
        "shape": f"{rows.dtype}{list(rows.shape)}",
        **few,
        "column means": short(rows.mean(axis=0)[:_FEW].tolist()),
        "column deviations": short(rows.std(axis=0)[:_FEW].tolist()),
        "length": short(float(np.linalg.norm(rows))),
    }


def short(value):
    """Floats with six digits, all the way down: more than their tolerance, and they can be read."""
    if isinstance(value, dict):
        return {key: short(part) for key, part in value.items()}
    if isinstance(value, list):
        return [short(part) for part in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


_UNSTABLE = ("made_from", "checksum", "fingerprint", "histogram", "best_epoch_mean")


def metrics_content(path: Path) -> dict[str, object]:
    """All keys of metrics.json, and values: but sentences, and what jumps when one number is rounded otherwise."""
    leaves = dict(_leaves(json.loads(path.read_text()), ""))
    kept = {key: value for key, value in leaves.items() if not any(name in key for name in _UNSTABLE)}
    return {"keys": sorted(leaves), "metrics": short({key: part for key, part in kept.items() if not _has_words(part)})}


def _has_words(value) -> bool:
    return any(isinstance(part, str) and " " in part for part in (value if isinstance(value, list) else [value]))


def _leaves(value, name: str):
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from _leaves(part, f"{name}.{key}".lstrip("."))
    elif isinstance(value, list) and any(isinstance(part, dict) for part in value):
        for at, part in enumerate(value):
            yield from _leaves(part, f"{name}[{at}]")
    else:
        yield name, value


def schema_content(schema: dict) -> dict[str, object]:
    """Every section.key with type, default and limits, from the JSON schema; the descriptions are not kept."""
    definitions = schema["$defs"]
    keys = {}
    for section, field in schema["properties"].items():
        kinds = field.get("discriminator", {}).get("mapping") or {"": _reference(field)}
        for kind, reference in kinds.items():
            part = definitions[reference.rpartition("/")[2]]
            for key, value in part["properties"].items():
                name = f"{section}{f'[{kind}]' if kind else ''}.{key}"
                required = {"required": True} if key in part.get("required", ()) else {}
                keys[name] = {**required, **_plain(value, definitions)}
    return keys


def _reference(field: dict) -> str:
    return field.get("$ref") or field["allOf"][0]["$ref"]


def _plain(value, definitions: dict):
    """A part of the schema without words, and with what it refers to."""
    if isinstance(value, list):
        return [_plain(part, definitions) for part in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return _plain(definitions[value["$ref"].rpartition("/")[2]], definitions)
    return {key: _plain(part, definitions) for key, part in value.items() if key not in ("title", "description")}
