"""The size of a data set in OGB's layout, by the heads of its raw files: no values are read."""

import gzip
from pathlib import Path

from gscl_scale.graph.sources.npz import read_headers
from gscl_scale.graph.types import SourceSize

_HEAD = 1 << 20  # bytes of text that the first line of a table may have
_INTEGER, _FLOAT, _PARSED = 8, 4, 16  # bytes of a value: of an edge, of a feature, and while pandas parses either


def binary_size(raw: Path) -> SourceSize:
    """Of a data set in `data.npz`, which the package reads as a whole; GraphError where it is none."""
    headers, labels = read_headers(raw / "data.npz"), read_headers(raw / "node-label.npz")
    edges, rows = headers["edge_index"], headers.get("node_feat") or labels["node_label"]
    kept = edges.num_bytes + sum(headers[name].num_bytes for name in headers if name == "node_feat")
    kept += sum(header.num_bytes for header in labels.values())
    read = sum(header.num_bytes for header in [*headers.values(), *labels.values()])
    width = headers["node_feat"].shape[1] if "node_feat" in headers else None
    return _size(rows.shape[0], edges.shape[1], width, kept, read)


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
