"""Arrow files that are written a part at a time."""

import numpy as np
import pyarrow as pa
import pytest

from gscl_scale.io.arrow import as_rows, map_array, write_arrow
from gscl_scale.io.arrow_writer import ColumnFile, column_file, write_column


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.float32])
@pytest.mark.parametrize("rows", [0, 1, 7, 1000])
def test_the_bytes_are_those_of_a_column_that_is_written_at_once(tmp_path, dtype, rows):
    values = np.arange(rows).astype(dtype)
    write_arrow(tmp_path / "whole", {"x": pa.array(values)})
    with column_file(tmp_path / "parts", "x", dtype) as column:
        for low in range(0, rows, 99):
            column.append(values[low : low + 99])
    write_column(tmp_path / "again", "x", values)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "parts").read_bytes() == (tmp_path / "again").read_bytes()


@pytest.mark.parametrize("rows", [0, 1, 500])
def test_rows_of_numbers_become_lists_of_fixed_size(tmp_path, rows):
    values = np.arange(rows * 5, dtype=np.float32).reshape(rows, 5)
    write_arrow(tmp_path / "whole", {"features": as_rows(values)})
    with column_file(tmp_path / "parts", "features", np.float32, 5) as column:
        for low in range(0, rows, 99):
            column.append(values[low : low + 99])
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "parts").read_bytes()


@pytest.mark.parametrize(("width", "rows"), [(None, 2**31 + 100), (2**11, 2**20 + 1)])
def test_a_column_may_have_more_than_2_31_numbers(tmp_path, width, rows):
    """The body is a hole in the file, so this takes neither time nor disk."""
    shape = (1,) if width is None else (1, width)
    with (tmp_path / "long").open("wb") as file:
        column = ColumnFile(file, "x", np.int8, width)
        file.seek(rows * (width or 1), 1)
        column.num_rows = rows
        column.append(np.full(shape, 42, np.int8))
        column.finish()
    values = map_array(tmp_path / "long", "x")
    assert values.shape == (rows + 1, *shape[1:])
    assert (values[0].min(), values[rows - 1].max(), values[rows].min()) == (0, 0, 42)


def test_an_error_in_the_block_leaves_no_file(tmp_path):
    with pytest.raises(KeyError), column_file(tmp_path / "x", "x", np.int8):
        raise KeyError
    assert not list(tmp_path.iterdir())
