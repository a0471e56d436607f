"""The map of the embeddings: what the page's script draws, and the same in a table."""

from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import SPLIT_CODES
from gscl_scale.report.html import Html, collapsible, element, fill_template, html, notes, table
from gscl_scale.report.map_cells import MapCells, map_cells
from gscl_scale.report.node_map import NodeMap
from gscl_scale.report.packed import as_json, packed, texts
from gscl_scale.report.run_data import RunData
from gscl_scale.rings.exact.ring_sizes import ring_profile

_NO_CLASS, _NO_SHARE = 0xFFFF, 0xFF
_MOST_ROWS = 50
_DEGREES = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)  # where bands of the table begin


def map_section(found: RunData) -> Html:
    """The map as a section that `map.js` makes move; nothing where none is drawn."""
    graph, drawn = found.graph, found.nodes
    if graph is None or drawn is None:
        return Html()
    columns, own = _columns(graph, drawn), map_cells(found.cells)
    cosines = np.clip(np.where(drawn.nearest >= 0, drawn.cosines, 0), -1, 1)
    near: dict[str, npt.NDArray[Any]] = {
        "node": drawn.nearest.astype(np.uint32).ravel(),
        "cosine": np.rint(32767 * cosines).astype(np.int16).ravel(),
    }
    about = as_json("map-about", _about(graph, drawn, columns, own))
    data = html(about, packed("map-points", columns), packed("map-near", near), own.data)
    rows = _class_table(graph, drawn) if graph.classes else _degree_table(graph, drawn)
    as_table = collapsible("The map as a table", rows)
    remarks = notes([*_notes(graph, drawn), *found.notes_on_cells, *own.notes])
    return html(element("h2", "The map", class_="unseen"), _frame(graph, drawn, remarks), data, as_table)


def _frame(graph: Graph, drawn: NodeMap, remarks: Html) -> Html:
    words = (
        "Each dot is a node. Nodes whose embeddings are alike stand close together; how far apart groups stand, and "
        "how large they are, means little."
    )
    label = f"Map of {drawn.nodes.size:,} nodes of {graph.name}"
    return Html("\n" + fill_template("map.html", label=html(label), words=words, notes=remarks).rstrip())


# --- what the script reads -------------------------------------------------------------------------------------------


def _columns(graph: Graph, drawn: NodeMap) -> dict[str, npt.NDArray[Any]]:
    places = np.clip(np.rint(drawn.places * 65535), 0, 65535).astype(np.uint16)
    columns: dict[str, npt.NDArray[Any]] = {
        "x": places[:, 0],
        "y": places[:, 1],
        "degree": _degrees(graph, drawn.nodes).astype(np.uint32),
        **texts(graph.ids.take(drawn.nodes)),
    }
    if (classes := _classes(graph)) is not None:
        labels = classes[drawn.nodes]
        columns["class"] = np.where((labels < 0) | (labels > _NO_CLASS), _NO_CLASS, labels).astype(np.uint16)
        columns["share"] = _same_class(graph, classes, drawn.nodes)
    if graph.splits:
        columns["split"] = next(iter(graph.splits.values()))[drawn.nodes].astype(np.uint8)
    return columns


def _about(graph: Graph, drawn: NodeMap, columns: dict[str, npt.NDArray[Any]], own: MapCells) -> dict[str, object]:
    degree = "degree" if graph.undirected else "out-degree"
    modes: list[dict[str, object]] = []
    if "class" in columns:
        modes.append(_groups("class", "class", columns["class"], graph.classes))
    degrees = columns["degree"]
    modes.append(
        {"name": degree, "kind": "log", "column": "degree", "low": int(degrees.min()), "high": int(degrees.max())}
    )
    if "class" in columns:
        modes.append({"name": "neighbours of its class", "kind": "share", "column": "share", "low": 0, "high": 200})
    if "split" in columns:
        modes.append(_groups(f"split {next(iter(graph.splits))}", "split", columns["split"], _split_names()))
    return {
        "classes": graph.classes if "class" in columns else [],
        "splits": _split_names(),
        "degree": degree,
        "modes": [*modes, *own.modes],
        "cells": own.cells,
        "nearest": int(drawn.nearest.shape[1]),
        "sampled": bool(drawn.nodes.size < graph.num_nodes),
        "hint": "Point at a dot to read about a node; click it to see its nearest nodes.",
    }


def _groups(name: str, column: str, values: npt.NDArray[Any], names: list[str]) -> dict[str, object]:
    counts = np.bincount(np.minimum(values, len(names)), minlength=len(names) + 1)
    shown = counts if counts[-1] else counts[:-1]
    return {
        "name": name, "kind": "groups", "column": column, "groups": names, "counts": shown.tolist(),
        "rest": "unknown",
    }  # fmt: skip


def _split_names() -> list[str]:
    return ["none", *sorted(SPLIT_CODES, key=lambda name: SPLIT_CODES[name])]


def _degrees(graph: Graph, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return graph.indptr[nodes + 1] - graph.indptr[nodes]


def _classes(graph: Graph) -> npt.NDArray[np.int64] | None:
    """The class of each node [N]: of many labels the one that most nodes have; None without labels."""
    return graph.labels if graph.label_sets is None else graph.label_sets.most_common()


def _same_class(graph: Graph, classes: npt.NDArray[np.int64], nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """The share of a node's labelled neighbours with its class, in half per cents; 255 where it has neither."""
    _, same, known = ring_profile(graph.indptr, graph.indices, nodes, 1, classes)
    shares = np.rint(200 * same[:, 0] / np.maximum(known[:, 0], 1))
    return np.where(known[:, 0] > 0, shares, _NO_SHARE).astype(np.uint8)


# --- the same as a table ---------------------------------------------------------------------------------------------


def _class_table(graph: Graph, drawn: NodeMap) -> Html:
    """Of each class, how many of the nearest nodes are of it, and which other class is met most often."""
    classes = _classes(graph)
    assert classes is not None
    labels, count = classes[drawn.nodes], len(graph.classes)
    known = (drawn.nearest >= 0) & (labels >= 0)[:, None] & (labels[drawn.nearest] >= 0)
    pairs = np.repeat(labels, drawn.nearest.shape[1])[known.ravel()] * count + labels[drawn.nearest][known]
    pairs, often = np.unique(pairs, return_counts=True)  # of all that are possible few are met
    of, others = np.divmod(pairs, count)
    sizes, degrees = np.bincount(labels[labels >= 0], minlength=count), _degrees(graph, drawn.nodes)
    rows = []
    for label in np.argsort(-sizes, kind="stable")[:_MOST_ROWS]:
        mine = of == label
        met, times = others[mine], often[mine]
        total, own, times = max(1, times.sum()), times[met == label].sum(), np.where(met == label, 0, times)
        most = int(times.argmax()) if times.any() else -1
        other = f"{graph.classes[met[most]]} ({100 * times[most] / total:.1f} %)" if most >= 0 else "-"
        mean = f"{degrees[labels == label].mean():,.1f}" if sizes[label] else "-"
        rows.append((graph.classes[label], f"{sizes[label]:,}", mean, f"{100 * own / total:.1f} %", other))
    names = ["class", "nodes", "mean degree", "nearest nodes of its class", "other class met most often"]
    return table(f"The {len(rows)} largest of {count} classes on the map", names, rows)


def _degree_table(graph: Graph, drawn: NodeMap) -> Html:
    """Of nodes with about as many neighbours, how near their nearest nodes are."""
    degrees = _degrees(graph, drawn.nodes)
    bands, rows = np.searchsorted(_DEGREES, degrees, side="right") - 1, []
    for band in np.unique(bands):
        mine, low = bands == band, _DEGREES[band]
        high = _DEGREES[band + 1] - 1 if band + 1 < len(_DEGREES) else None
        words = f"from {low:,}" if high is None else f"{low:,}" if high == low else f"{low:,} to {high:,}"
        rows.append((words, f"{mine.sum():,}", f"{drawn.cosines[mine][drawn.nearest[mine] >= 0].mean():.3f}"))
    return table("Nodes on the map", ["degree", "nodes", "mean cosine of their nearest nodes"], rows)


def _notes(graph: Graph, drawn: NodeMap) -> list[str]:
    count = drawn.nearest.shape[1]
    sentences = []
    if drawn.nodes.size < graph.num_nodes:
        sentences.append(f"The map shows {drawn.nodes.size:,} of {graph.num_nodes:,} nodes, drawn at random")
    if graph.label_sets is not None:
        sentences.append("Nodes have several labels; the class of a node here is the one of them that most nodes have")
    return [
        *sentences,
        f"The {count} nearest nodes are found exactly, by cosine of the whole embeddings, among the nodes of the map",
        "Places are those of t-SNE (openTSNE), begun with two principal components",
    ]
