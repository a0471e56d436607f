"""From what a source read to a finished graph folder."""

import functools
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale import machine, seeding
from gscl_scale.config.graph_size import FeatureBlocks
from gscl_scale.config.graphs import GraphConfig
from gscl_scale.errors import GraphError
from gscl_scale.graph import edge_weights
from gscl_scale.graph.alikeness import alikeness
from gscl_scale.graph.csr import CsrCounts, EdgeBuckets, index_dtype
from gscl_scale.graph.edge_rows import Edges, write_rows
from gscl_scale.graph.edge_weights import map_weights
from gscl_scale.graph.features import (
    DENSE,
    Features,
    beside,
    why_not_structural,
    why_structural,
    why_structural_after_all,
    write_features,
)
from gscl_scale.graph.graph import FORMAT, MANIFEST, Graph
from gscl_scale.graph.held_out_edges import ALL_STAY, HoldOut, hold_out
from gscl_scale.graph.label_sets import LabelSets
from gscl_scale.graph.labels import checked_labels, write_labels
from gscl_scale.graph.neighbour_means import neighbour_means
from gscl_scale.graph.step_files import StepFiles, kept_when_stopped
from gscl_scale.graph.structural_features import MOST_STEPS, structural_features
from gscl_scale.graph.types import SPLIT_CODES, ColumnEncoding, ColumnSummary, Manifest
from gscl_scale.io.arrow import arrow_of, is_text, map_array, numpy_of, write_arrow
from gscl_scale.io.arrow_writer import write_column
from gscl_scale.io.atomic import publish_folder
from gscl_scale.io.checksum import fingerprint_of, sha256_of
from gscl_scale.io.json import write_json
from gscl_scale.io.validate import FileEntry
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.runner import Runner
from gscl_scale.runtime.threads import map_in_order, num_threads
from gscl_scale.text import counted, format_bytes, quoted
from gscl_scale.version import __version__

_LEAST_BYTES_PER_NODE = 24  # two counts and one id


@dataclass
class GraphDraft:
    """What a source read: edges as a stream of (source, target) index arrays, and the nodes' columns.

    edges      may have a third array: their weights, above 0
    features   [N, F] numbers (also a mapped file), a stream of rows, a scipy CSR matrix; None: those of the structure
    labels     [N] integers (negative: unknown), floats (NaN: unknown), or strings (None: unknown); where a node has
               many, LabelSets, or [N, L] of 0 and 1
    splits     name -> [N] int8 codes of SPLIT_CODES, 0 for nodes in no part
    ids        the user's ids, None for 0..N-1; `distinct` where they are known to be
    columns    the user's names of the features' columns, if they have any
    summaries  what is in the columns of a node table, and what was made of it
    encoding   how they became features, so that another table can be read in the same way
    origin     file or data set, for messages
    notes      what was done to the input, one sentence each; reading the edges may add some

    Examples
    --------
    >>> import numpy as np
    >>> import gscl_scale
    >>> edges = np.array([0, 1, 2]), np.array([1, 2, 3])
    >>> draft = gscl_scale.GraphDraft(name="path", origin="an example", num_nodes=4, edges=[edges])
    >>> gscl_scale.fit(draft, epochs=1, width=8).shape
    (4, 136)
    """

    name: str
    origin: str
    num_nodes: int
    edges: Iterable[Edges]
    features: Features | None = None
    labels: npt.NDArray[Any] | LabelSets | None = None
    splits: dict[str, npt.NDArray[np.int8]] = field(default_factory=dict)
    ids: pa.Array | None = None
    columns: list[str] = field(default_factory=list)
    summaries: list[ColumnSummary] = field(default_factory=list)
    encoding: list[ColumnEncoding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    distinct: bool = False


def write_graph(
    draft: GraphDraft,
    config: GraphConfig,
    folder: Path,
    asked: HoldOut = ALL_STAY,
    console: Console | None = None,
    runner: Runner | None = None,
) -> Graph:
    """Check a draft, build its rows, and publish the graph folder; on an error nothing is left behind.

    The rows are built by threads, or by tasks of a runner whose machines share the folder.
    Edges that are held out leave the rows before features of the structure are computed from them, and labels are
    shuffled before anything reads them.
    """
    _check_columns(draft)
    labels = checked_labels(draft.labels, draft.origin)
    ids = draft.ids if draft.distinct else check_ids(draft.ids, draft.num_nodes, draft.origin)
    unfinished = folder.with_name(f"{folder.name}-structure.tmp")
    with (
        kept_when_stopped(unfinished) as steps,
        publish_folder(folder) as out,
        tempfile.TemporaryDirectory(dir=out) as scratch,
    ):
        indptr, counts, notes_on_edges = _write_rows(out, draft, config, Path(scratch).absolute(), ids, asked, runner)
        notes = list(draft.notes)
        _write_ids(out / "ids.arrow", ids)
        console, width = console or Console(quiet=True), config.structural_features
        structural = functools.partial(_structural_features, out, indptr, ids, width, steps, console)
        features, reason = _write_features(out, draft, config, indptr, Path(scratch), structural)
        notes += [reason] * bool(reason)
        classes = write_labels(out, labels, asked.shuffle_labels)
        if draft.splits:
            write_arrow(out / "splits.arrow", {name: arrow_of(codes) for name, codes in draft.splits.items()})
        notes += notes_on_edges
        _write_manifest(out, draft, config, counts, features, classes, notes, asked.shuffle_labels)
    return Graph.open(folder)


class _Written(NamedTuple):
    """Features of each kind, and how many of their values differ from zero."""

    blocks: FeatureBlocks
    nonzero: int


def _write_features(
    out: Path,
    draft: GraphDraft,
    config: GraphConfig,
    indptr: npt.NDArray[np.int64],
    scratch: Path,
    structural: Callable[[], npt.NDArray[np.float32]],
) -> tuple[_Written, str]:
    """Write the features; returns what was written, and why there are structural ones.

    Many dense features are looked at once they are written, where any row can be read; the structural ones are
    computed, and all written again, only where they are needed.
    """
    features, origin = draft.features, draft.origin
    reason = why_structural(features, config, origin, draft.encoding)
    if config.structure == "only":
        features = None
    elif not reason:
        assert features is not None
        nonzero = write_features(out, features, origin)
        found = None
        if (out / DENSE).exists():
            indices, own = map_array(out / "indices.arrow", "indices", "int32", "int64"), _map_features(out / DENSE)
            found = alikeness(own, indptr, indices)
            reason = why_structural_after_all(own, found, config)
        if not reason:
            return _Written(FeatureBlocks(int(features.shape[1])), nonzero), why_not_structural(found, config)
        features = _map_features((out / DENSE).replace(scratch / DENSE))
    rows = structural()
    if features is None:
        return _Written(FeatureBlocks(0, structural=rows.shape[1]), write_features(out, rows, origin)), reason
    indices = map_array(out / "indices.arrow", "indices", "int32", "int64")
    means_of = functools.partial(neighbour_means, indptr, indices, map_weights(out), threads=num_threads())
    joined, blocks = beside(features, means_of, rows, origin)
    return _Written(blocks, write_features(out, joined, origin)), reason


def _map_features(path: Path) -> npt.NDArray[np.float32]:
    return map_array(path, "features", "float")


def _structural_features(
    out: Path, indptr: npt.NDArray[np.int64], ids: pa.Array, width: int, folder: Path, console: Console
) -> npt.NDArray[np.float32]:
    """Rows for the nodes of a graph whose edges and ids are in `out`; files of the steps stand in `folder`."""
    names = ("ids.arrow", "indptr.arrow", "indices.arrow", edge_weights.FILE)
    inputs = [sha256_of(out / name) for name in names if (out / name).exists()]
    made_from = fingerprint_of({"version": __version__, "width": width, "inputs": inputs})
    files = StepFiles(folder, made_from, (len(ids), width))
    indices, weights = map_array(out / "indices.arrow", "indices", "int32", "int64"), map_weights(out)
    identities = seeding.identities_of(ids)
    if files.done:
        console.say(f"structural features: going on after step {files.done}, where an earlier command was stopped")
    with console.progress("structural features", MOST_STEPS, "steps", files.done) as tell:
        return structural_features(indptr, indices, identities, files, num_threads(), tell, weights)


def _write_rows(
    out: Path,
    draft: GraphDraft,
    config: GraphConfig,
    scratch: Path,
    ids: pa.Array,
    asked: HoldOut,
    runner: Runner | None,
) -> tuple[npt.NDArray[np.int64], CsrCounts, list[str]]:
    """Write the rows, without the edges that are held out; returns indptr, the counts, and notes for the user."""
    buckets = EdgeBuckets(scratch, draft.num_nodes, draft.origin, config.undirected)
    indptr, counts, notes = write_rows(
        draft.edges, buckets, scratch if asked.share else out, config.memory_mb << 20, runner
    )
    if asked.share:
        identities = seeding.identities_of(ids)
        indptr, note = hold_out(scratch, identities, config.undirected, asked, out, draft.origin)
        for name in ("indices.arrow", edge_weights.FILE):
            (scratch / name).unlink(missing_ok=True)
        counts, notes = replace(counts, entries=int(indptr[-1])), [*notes, note]
    return indptr, counts, notes


def _write_ids(path: Path, ids: pa.Array) -> None:
    if pa.types.is_integer(ids.type):
        write_column(path, "id", numpy_of(ids))
    else:
        write_arrow(path, {"id": ids})


def check_ids(ids: pa.Array | None, num_nodes: int, origin: str) -> pa.Array:
    """Return the ids as one array of integers or text, distinct and one per node; 0..N-1 where there are none."""
    if ids is None:
        return arrow_of(np.arange(num_nodes, dtype=np.int64))
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks()
    if not (pa.types.is_integer(ids.type) or is_text(ids.type)):
        raise GraphError(f"{origin}: node ids are of type {ids.type}, expected integers or text")
    if len(ids) != num_nodes:
        raise GraphError(f"{origin}: {len(ids):,} ids for {num_nodes:,} nodes; expected one each")
    if ids.null_count:
        row = pc.index(ids.is_null(), True).as_py() + 1
        raise GraphError(f"{origin}: {ids.null_count:,} nodes have no id, such as row {row:,}; give every node its own")
    if (distinct := _num_distinct(ids)) != num_nodes:
        counts = pc.value_counts(ids)
        example = counts.field("values")[pc.index(pc.greater(counts.field("counts"), 1), True).as_py()]
        raise repeated_ids(origin, num_nodes - distinct, example.as_py())
    return ids


def _num_distinct(ids: pa.Array) -> int:
    """How many different ids there are; sorting integers takes a tenth of the time and memory of a hash table."""
    if not pa.types.is_integer(ids.type):
        return len(pc.unique(ids))
    numbers = numpy_of(ids)
    numbers = numbers if (numbers[1:] > numbers[:-1]).all() else np.sort(numbers)
    return min(1, numbers.size) + int(np.count_nonzero(numbers[1:] != numbers[:-1]))


def repeated_ids(origin: str, count: int, example: object) -> GraphError:
    """The refusal of ids that several nodes have."""
    return GraphError(
        f"{origin}: {counted(count, 'node id is', 'node ids are')} repeated, such as {quoted(example)}; "
        "give every node one row"
    )


def _check_columns(draft: GraphDraft) -> None:
    if draft.num_nodes < 1:
        raise GraphError(f"{draft.origin}: the graph is empty; expected at least one node")
    for name, column in {"features": draft.features, "labels": draft.labels, **draft.splits}.items():
        rows = draft.num_nodes if column is None else column.shape[0] if column.shape else 0
        if rows != draft.num_nodes:
            raise GraphError(f"{draft.origin}: {name} has {rows:,} rows, expected one per node ({draft.num_nodes:,})")
    for name, codes in draft.splits.items():
        integers = codes.ndim == 1 and codes.dtype.kind in "iu"
        if not integers or codes.min() < 0 or codes.max() > max(SPLIT_CODES.values()):
            raise GraphError(f"{draft.origin}: {name} is not an array of codes; expected {SPLIT_CODES} or 0 per node")
    least, memory = _LEAST_BYTES_PER_NODE * draft.num_nodes, machine.available_memory()
    if least > memory:
        raise GraphError(
            f"{draft.origin}: {draft.num_nodes:,} nodes take {format_bytes(least)} without any edge and "
            f"{format_bytes(memory)} of memory are available; check the number of nodes, or give scattered ids "
            "in a node table"
        )


def _write_manifest(
    out: Path,
    draft: GraphDraft,
    config: GraphConfig,
    counts: CsrCounts,
    features: _Written,
    classes: list[str],
    notes: list[str],
    shuffle: int | None,
) -> None:
    """Write the manifest."""
    paths = sorted(out.glob("*.arrow"))
    checksums = map_in_order(sha256_of, paths, num_threads())
    content = {path.name: checksum for path, checksum in zip(paths, checksums, strict=True)}
    manifest: Manifest = {
        "format": FORMAT,
        "name": config.name or draft.name,
        "undirected": config.undirected,
        "num_nodes": draft.num_nodes,
        "num_entries": counts.entries,
        "edges_given": counts.edges_given,
        "self_loops": counts.self_loops,
        "index_type": np.dtype(index_dtype(draft.num_nodes)).name,
        "num_features": sum(features.blocks),
        "structural_features": features.blocks.structural,
        "neighbour_means": features.blocks.means,
        "nonzero_features": features.nonzero,
        "feature_columns": [] if config.structure == "only" else draft.columns,
        "classes": classes,
        "splits": list(draft.splits),
        "notes": notes,
        "options": config.model_dump(mode="json"),
        "files": {path.name: FileEntry(bytes=path.stat().st_size, sha256=content[path.name]) for path in paths},
        "fingerprint": fingerprint_of({"undirected": config.undirected, "classes": classes, **content}),
    }
    if shuffle is not None:  # the name is on every page, so that nobody takes these labels for those of the user
        name = f"{manifest['name']} (labels shuffled, seed {shuffle})"
        manifest |= {"name": name, "shuffled_labels": shuffle}
    if draft.summaries:
        manifest |= {"columns": draft.summaries, "encoding": draft.encoding}
    write_json(out / MANIFEST, manifest)
