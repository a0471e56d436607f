"""Layers whose rows lie on the disks of the machines that have computed them, not in a folder that all share.

Shapes: N nodes, d columns.
"""

import bisect
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gscl_scale.io.atomic import explain_disk_errors

Rows = npt.NDArray[np.float32]


@dataclass(frozen=True, order=True)
class Place:
    """The rows first..end of a file are on the disk of this node of the cluster."""

    first: int
    end: int
    node: str


class RowSource(Protocol):
    """Rows [N, d] that are read by ranges: a mapped file, or rows of several machines."""

    @property
    def shape(self) -> tuple[int, ...]:
        """N and d."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice, /) -> Any: ...


@dataclass(frozen=True)
class MachineDisks:
    """A folder on the disk of each machine, for the layers of one encoding at a time.

    root   where such folders are, the same on all machines
    name   of the encoding's folders
    """

    root: Path
    name: str

    def folder(self, node: str) -> Path:
        """The folder of a node of the cluster: nodes may share a disk."""
        return self.root / f"gscl-scale-{self.name[:16]}-{node[:16]}"

    def write(self, file: str, num_rows: int, first: int, rows: Rows) -> tuple[int, str]:
        """Write rows of a file [num_rows, d] on the disk of this machine; returns their CRC-32, and the node."""
        from gscl_scale.runtime.cluster.machine_disks import this_node

        node = this_node()
        path = self.folder(node) / file
        with explain_disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            os.truncate(path, num_rows * rows.shape[1] * 4)  # the rows of others are holes, which take no room
            with path.open("r+b") as opened:
                opened.seek(first * rows.shape[1] * 4)
                opened.write(rows.data)
        return zlib.crc32(rows.data), node

    def intact(self, file: str, width: int, places: list[Place], crc32s: list[int]) -> list[bool]:
        """Whether the rows at some places are there, with these checksums."""
        from gscl_scale.runtime.cluster.machine_disks import checksums

        return [
            found == crc32
            for found, crc32 in zip(checksums(self._part(file, width, at) for at in places), crc32s, strict=True)
        ]

    def read(self, file: str, width: int, places: list[Place]) -> Rows:
        """The rows at some places, one after the other."""
        from gscl_scale.runtime.cluster.machine_disks import read_parts

        rows, at = np.empty((sum(place.end - place.first for place in places), width), np.float32), 0
        flat = rows.reshape(-1).view(np.uint8)
        for content in read_parts(self._part(file, width, place) for place in places):
            flat[at : at + len(content)] = np.frombuffer(content, np.uint8)
            at += len(content)
        return rows

    def remove(self) -> None:
        """Remove the folders of all machines."""
        from gscl_scale.runtime.cluster.machine_disks import remove_folders

        remove_folders(self.folder)

    def _part(self, file: str, width: int, place: Place) -> tuple[str, Path, int, int]:
        row = 4 * width
        return place.node, self.folder(place.node) / file, place.first * row, (place.end - place.first) * row


class SpreadRows:
    """The rows [N, d] of a file of `MachineDisks`, of which ranges are fetched from where they are."""

    def __init__(self, disks: MachineDisks, file: str, width: int, places: tuple[Place, ...]) -> None:
        """`places` are those of all rows, in their order."""
        self._disks, self._file, self._places = disks, file, places
        self.shape = (places[-1].end, width)

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return 4 * self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Rows:
        """A copy of a range of rows."""
        low, high, _ = rows.indices(len(self))
        at = bisect.bisect_right(self._places, low, key=lambda place: place.first) - 1
        until = bisect.bisect_left(self._places, high, key=lambda place: place.first)
        within = [
            Place(max(low, place.first), min(high, place.end), place.node) for place in self._places[max(0, at) : until]
        ]
        return self._disks.read(self._file, self.shape[1], within)
