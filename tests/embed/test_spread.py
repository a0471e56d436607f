"""Rows on the disks of several machines: which parts of which machine a range consists of."""

import numpy as np
import pytest

from gscl_scale.embed.scratch import Scratch
from gscl_scale.embed.spread import MachineDisks, Place, SpreadRows

ROWS = np.arange(200, dtype=np.float32).reshape(100, 2)


class Disks(MachineDisks):
    """Machines that have the rows they were recorded with; `lost` ones have none any more."""

    def read(self, file, width, places):
        return np.concatenate([ROWS[:0], *(ROWS[place.first : place.end] for place in places)])

    def intact(self, file, width, places, crc32s):
        return [place.node != "lost" for place in places]

    def remove(self):
        pass


def recorded(folder, blocks):
    scratch = Scratch(folder / "scratch", "a", 100, {"rows.raw": 2, "last.raw": 2}, Disks(folder, "name"))
    for first, end, node in blocks:
        scratch.record("rows.raw", first, end, 0, node)
    return scratch


@pytest.mark.parametrize("places", [[(0, 100, "a")], [(0, 10, "a"), (10, 64, "b"), (64, 65, "a"), (65, 100, "c")]])
def test_any_range_is_read_from_the_machines_that_have_it(tmp_path, places):
    rows = SpreadRows(Disks(tmp_path, "name"), "rows.raw", 2, tuple(Place(*place) for place in places))
    assert (rows.shape, len(rows), rows.nbytes) == ((100, 2), 100, 800)
    for low in range(0, 100, 3):
        for high in (low, low + 1, low + 9, 90, 100, 120):
            assert rows[low:high].tolist() == ROWS[low:high].tolist()


def test_blocks_that_overlap_are_read_once_and_those_of_lost_machines_are_missing(tmp_path):
    blocks = [(0, 40, "a"), (30, 60, "b"), (60, 80, "lost"), (50, 70, "c"), (80, 100, "b")]
    scratch = recorded(tmp_path, blocks)
    assert scratch.missing("rows.raw") == [(70, 80)]
    scratch.record("rows.raw", 70, 80, 0, "c")
    assert scratch.places("rows.raw") == tuple(
        Place(*place) for place in [(0, 40, "a"), (40, 60, "b"), (60, 70, "c"), (70, 80, "c"), (80, 100, "b")]
    )
    again = Scratch(tmp_path / "scratch", "a", 100, {"rows.raw": 2, "last.raw": 2}, Disks(tmp_path, "name"))
    assert again.resumed
    assert again.missing("rows.raw") == []
    assert again.places("rows.raw") == scratch.places("rows.raw")


def test_without_the_disks_rows_of_machines_are_missing(tmp_path):
    recorded(tmp_path, [(0, 100, "a")])
    alone = Scratch(tmp_path / "scratch", "a", 100, {"rows.raw": 2, "last.raw": 2})
    assert alone.missing("rows.raw") == [(0, 100)]
    assert alone.places("rows.raw") == ()


def test_blocks_in_the_shared_folder_are_missing_once_files_are_on_the_disks_of_machines(tmp_path):
    files = {"rows.raw": 2, "last.raw": 2}
    before = Scratch(tmp_path / "scratch", "a", 100, files)
    for file in files:
        before.record(file, 0, 40, before.write(file, 0, ROWS[:40]))
    after = Scratch(tmp_path / "scratch", "a", 100, files, Disks(tmp_path, "name"))
    assert after.resumed
    assert after.missing("rows.raw") == [(0, 100)]
    assert after.missing("last.raw") == [(40, 100)]


def test_only_the_last_file_is_in_the_shared_folder(tmp_path):
    recorded(tmp_path, [])
    assert sorted(path.name for path in (tmp_path / "scratch").iterdir()) == ["journal.jsonl", "last.raw"]
