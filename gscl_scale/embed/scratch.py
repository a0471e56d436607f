"""Files of rows that are written block by block, and the journal of the finished blocks.

The files lie in a folder that all machines share. Those between the steps may lie on the disks of the machines instead.
"""

import contextlib
import json
import os
import shutil
import zlib
from pathlib import Path
from typing import NotRequired

import numpy as np
import numpy.typing as npt
from typing_extensions import TypedDict

from gscl_scale.embed.spread import MachineDisks, Place
from gscl_scale.io.atomic import explain_disk_errors, write_text
from gscl_scale.io.json import read_json_lines
from gscl_scale.io.validate import Count, schema_error, size_of

Rows = npt.NDArray[np.float32]
_JOURNAL = "journal.jsonl"
_BYTES_AT_ONCE = 1 << 24


class _Block(TypedDict):
    file: str
    first: Count
    end: Count
    crc32: Count
    node: NotRequired[str]


def write_rows(path: Path, first: int, rows: Rows) -> int:
    """Write rows into a file from its row `first` on; returns the CRC-32 of their bytes."""
    with explain_disk_errors(path), path.open("r+b") as file:
        file.seek(first * rows.shape[1] * 4)
        file.write(rows.data)
    return zlib.crc32(rows.data)


def map_rows(path: Path, width: int) -> Rows:
    """All rows of a file, read-only."""
    return np.memmap(path, np.float32, "r").reshape(-1, width)


class Scratch:
    """Raw files of float32 [N, width] in a folder of their own, for one computation that is resumed after a kill.

    A finished block is recorded in a journal with the CRC-32 of its bytes. A folder of another computation (another
    fingerprint, other files) is removed.

    widths   width of each file, by name
    disks    where blocks of all files but the last are that a machine has written on its own disk; None: such blocks
             count as missing
    """

    def __init__(
        self, folder: Path, fingerprint: str, num_rows: int, widths: dict[str, int], disks: MachineDisks | None = None
    ) -> None:
        self._folder, self._num_rows, self._widths, self._disks = folder, num_rows, widths, disks
        header = {"fingerprint": fingerprint, "rows": num_rows, "widths": widths}
        begun, *lines = read_json_lines(folder / _JOURNAL) or [None]
        self.resumed = begun == header
        if not self.resumed:
            shutil.rmtree(folder, ignore_errors=True)
            lines = []
            if disks:
                disks.remove()
        self._blocks: list[_Block] = [
            line for line in lines if not schema_error(_Block, line) and line["first"] < line["end"] <= num_rows
        ]
        # written again, because a kill may have left half a line
        write_text(folder / _JOURNAL, "".join(json.dumps(line) + "\n" for line in (header, *self._blocks)))
        for name, width in list(widths.items())[-1 if disks else 0 :]:
            path, size = folder / name, num_rows * width * 4
            with explain_disk_errors(path):
                path.touch()
                if size_of(path) != size:
                    os.truncate(path, size)

    def missing(self, name: str) -> list[tuple[int, int]]:
        """Ranges of rows of a file that are missing or damaged."""
        ranges, at = [], 0
        for first, end in sorted(self._intact_blocks(name)):
            if first > at:
                ranges.append((at, first))
            at = max(at, end)
        if at < self._num_rows:
            ranges.append((at, self._num_rows))
        return ranges

    def write(self, name: str, first: int, rows: Rows) -> int:
        """Write a block of rows, which is recorded afterwards; returns the CRC-32 of its bytes."""
        return write_rows(self._folder / name, first, rows)

    def record(self, name: str, first: int, end: int, crc32: int, node: str = "") -> None:
        """Record a block that was written: into the folder, or on the disk of a node."""
        journal = self._folder / _JOURNAL
        block: _Block = {"file": name, "first": first, "end": end, "crc32": crc32}
        if node:
            block["node"] = node
        self._blocks.append(block)
        with explain_disk_errors(journal), journal.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(block) + "\n")

    def map(self, name: str) -> Rows:
        """All rows of a file, read-only."""
        return map_rows(self._folder / name, self._widths[name])

    def places(self, name: str) -> tuple[Place, ...]:
        """On whose disks the rows of a file are, in their order; empty if they are in the folder."""
        places, at = [], 0
        for block in sorted(self._last(name).values(), key=lambda block: block["first"]):
            if "node" in block and block["end"] > at:
                places.append(Place(max(at, block["first"]), block["end"], block["node"]))
                at = block["end"]
        return tuple(places)

    def remove(self) -> None:
        """Remove the folder with all that is in it; a process that has used it too may have done that."""
        if self._disks:
            self._disks.remove()
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._folder)

    def _intact_blocks(self, name: str) -> list[tuple[int, int]]:
        """The blocks whose bytes are as recorded; the others are forgotten."""
        blocks = list(self._last(name).values())
        shared = self._disks is None or name == list(self._widths)[-1]
        intact = {id(block) for block in blocks if shared and "node" not in block and self._is_intact(block)}
        spread = [block for block in blocks if "node" in block]
        if self._disks and spread:
            places = [Place(block["first"], block["end"], block["node"]) for block in spread]
            verdicts = self._disks.intact(name, self._widths[name], places, [block["crc32"] for block in spread])
            intact |= {id(block) for block, verdict in zip(spread, verdicts, strict=True) if verdict}
        self._blocks = [block for block in self._blocks if block["file"] != name or id(block) in intact]
        return [(block["first"], block["end"]) for block in blocks if id(block) in intact]

    def _last(self, name: str) -> dict[tuple[int, int], _Block]:
        """The blocks of a file; of one that was written twice the last record counts."""
        return {(block["first"], block["end"]): block for block in self._blocks if block["file"] == name}

    def _is_intact(self, block: _Block) -> bool:
        return self._checksum(block["file"], block["first"], block["end"]) == block["crc32"]

    def _checksum(self, name: str, first: int, end: int) -> int:
        width, checksum = self._widths[name] * 4, 0
        with (self._folder / name).open("rb") as file:
            file.seek(first * width)
            left = (end - first) * width
            while left and (chunk := file.read(min(left, _BYTES_AT_ONCE))):
                checksum = zlib.crc32(chunk, checksum)
                left -= len(chunk)
        return checksum
