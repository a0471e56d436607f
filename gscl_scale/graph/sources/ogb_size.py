"""The size of a data set in OGB's layout, by the heads of its raw files: no values are read."""

import gzip
from pathlib import Path

from gscl_scale.graph.sources.archive import footprint, read_heads
from gscl_scale.graph.types import SourceSize

MAPPED = ("edge_index", "node_feat")  # of `data.npz`, where they are large
_HEAD = 1 << 20  # bytes of text that the first line of a table may have
_INTEGER, _FLOAT, _PARSED = 8, 4, 16  # bytes of a value: of an edge, of a feature, and while pandas parses either


def binary_size(raw: Path) -> SourceSize:
    """Of a data set in `data.npz`, whose large arrays are mapped; GraphError where it is none."""
    heads, labels = read_heads(raw / "data.npz"), read_heads(raw / "node-label.npz")["node_label"]
    edges, rows = heads["edge_index"], heads.get("node_feat") or labels
    takes = footprint({name: heads[name] for name in MAPPED if name in heads}, MAPPED)
    return SourceSize(
        num_nodes=rows.shape[0],
        num_edges=edges.shape[1],
        num_features=heads["node_feat"].shape[1] if "node_feat" in heads else None,
        fixed=takes.memory + labels.num_bytes,
        unpacked=takes.disk,
        mapped="edge_index" in takes.mapped,
    )


def text_size(raw: Path, inverse: bool) -> SourceSize:
    """Of a data set in tables, with the inverse of each edge or without; OSError or ValueError where they are none."""
    nodes, edges = (int(_first_line(raw / f"num-{kind}-list.csv.gz")) for kind in ("node", "edge"))
    width, of_edges = (_width(raw / f"{kind}-feat.csv.gz") for kind in ("node", "edge"))
    peak = read = 0
    for values, item in ((2 * edges, _INTEGER), (width * nodes, _FLOAT), (of_edges * edges, _FLOAT)):  # in this order
        peak = max(peak, read + _PARSED * values)
        read += item * values
    times = 2 if inverse else 1
    if inverse:
        peak = max(peak, read + times * edges * (2 * _INTEGER + of_edges * _FLOAT))
    kept = times * 2 * edges * _INTEGER + width * nodes * _FLOAT
    return _size(nodes, times * edges, width or None, kept, peak)


def _size(nodes: int, edges: int, width: int | None, kept: int, peak: int) -> SourceSize:
    """With the bytes that stay in memory, and those at the peak of reading, as bytes per node."""
    return SourceSize(nodes, edges, width, reading=-(-max(0, peak - kept) // max(1, nodes)), fixed=kept)


def _width(path: Path) -> int:
    """Columns of a table; none where there is no such file."""
    return _first_line(path).count(",") + 1 if path.exists() else 0


def _first_line(path: Path) -> str:
    with gzip.open(path) as file:
        return file.readline(_HEAD).decode()
