"""One part of a round as an Arrow file: a row per anchor, in ascending node order."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gscl_scale.errors import FolderError, TaskError
from gscl_scale.io.arrow import arrow_of, as_rows, column_of, map_arrow, numbers_of, numpy_of, put_arrow, write_arrow
from gscl_scale.io.atomic import flushing, publish_file
from gscl_scale.io.checksum import sha256_of
from gscl_scale.rings.priorities import Priorities
from gscl_scale.rings.sample import Lists, RingSample

_NODES = ("int32", "int64")
_WORDS = ("uint64",)


def round_folder(folder: Path, round_number: int) -> Path:
    """The folder of a round."""
    return folder / f"round-{round_number:03d}"


def rounds_in(folder: Path) -> set[int]:
    """Numbers of the rounds that have a folder, finished or not."""
    names = (path.name.removeprefix("round-") for path in folder.glob("round-*"))
    return {int(name) for name in names if name.isdecimal()}


def part_path(folder: Path, round_number: int, part: int) -> Path:
    """The file of a part."""
    return round_folder(folder, round_number) / f"part-{part:05d}.arrow"


def priorities_path(folder: Path, round_number: int) -> Path:
    """The file of the priorities of a round."""
    return round_folder(folder, round_number) / "priorities.arrow"


def weights_path(folder: Path) -> Path:
    """The file of the weights of the nodes; it is there where sampling is by PageRank."""
    return folder / "weights.arrow"


def write_part(path: Path, sample: RingSample) -> str:
    """Publish the samples of a range of anchors; returns the checksum of what was written, read back."""
    columns = {
        "anchor": arrow_of(sample.anchors),
        **{f"ring_{hop}": _list_column(ring, path) for hop, ring in enumerate(sample.rings, start=1)},
        "beyond": _list_column(sample.beyond, path),
        "decided": arrow_of(sample.decided),
        "ring_size": as_rows(sample.ring_size),
        "ring_size_exact": arrow_of(sample.ring_size_exact),
    }
    if sample.near is not None:
        columns["near"] = _list_column(sample.near, path)
    with publish_file(path) as temporary:
        put_arrow(temporary, columns)
        with flushing(temporary):
            return sha256_of(temporary)


def map_part(path: Path, whole: bool = False) -> RingSample:
    """The samples of a part as arrays over the mapped file, or over its bytes, read at once."""
    batch = map_arrow(path, whole)
    hops = sum(name.startswith("ring_") and name[5:].isdigit() for name in batch.schema.names)
    exact = column_of(batch, "ring_size_exact", path)
    if not pa.types.is_boolean(exact.type):
        raise FolderError(f"{path} is damaged: expected booleans in ring_size_exact; run gscl-scale precompute again")
    return RingSample(
        anchors=numbers_of(column_of(batch, "anchor", path), path, "int64"),
        rings=[_lists(batch, f"ring_{hop}", path) for hop in range(1, hops + 1)],
        beyond=_lists(batch, "beyond", path),
        decided=numbers_of(column_of(batch, "decided", path), path, "double"),
        ring_size=numbers_of(column_of(batch, "ring_size", path), path, "int64"),
        ring_size_exact=numpy_of(exact),
        near=_lists(batch, "near", path, _WORDS) if "near" in batch.schema.names else None,
    )


def write_priorities(path: Path, priorities: Priorities) -> None:
    """Publish the priorities of a round, lowest first."""
    write_arrow(path, {"node": arrow_of(priorities.order), "priority": arrow_of(priorities.priority)})


def write_weights(path: Path, weights: npt.NDArray[np.float64]) -> None:
    """Publish the weights of the nodes, in their order."""
    write_arrow(path, {"weight": arrow_of(weights)})


def map_priorities(path: Path) -> Priorities:
    """The priorities of a round as arrays over the mapped file."""
    batch = map_arrow(path)
    return Priorities(
        numbers_of(column_of(batch, "node", path), path, *_NODES),
        numbers_of(column_of(batch, "priority", path), path, "double"),
    )


def _list_column(lists: Lists, path: Path) -> pa.Array:
    if lists.offsets[-1] >= 2**31:
        raise TaskError(
            f"{path}: {lists.offsets[-1]:,} entries of a column do not fit one part (limit 2,147,483,647); "
            "lower rings.part_anchors or rings.per_ring"
        )
    return pa.ListArray.from_arrays(arrow_of(lists.offsets.astype(np.int32)), arrow_of(lists.members))


def _lists(batch: pa.RecordBatch, name: str, path: Path, types: tuple[str, ...] = _NODES) -> Lists:
    column = column_of(batch, name, path)
    if not pa.types.is_list(column.type):
        raise FolderError(f"{path} is damaged: expected lists in {name}; run gscl-scale precompute again")
    return Lists(numpy_of(column.offsets), numbers_of(column.values, path, *types))
