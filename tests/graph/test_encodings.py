"""Text files of another encoding than UTF-8: refused with the line, and with the command that converts them."""

import gzip
import shutil
import subprocess

import pyarrow as pa
import pytest

from gscl_scale.config.graphs import TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.sources.read import read
from gscl_scale.graph.sources.recognize import recognize

EARLY = 3
LATE = 30_000  # behind the first 64 KiB, which are looked at to recognize the file


def content(line):
    """Edges with an umlaut in one line of the file."""
    rows = ["source,target", *(f"p{node},p{node + 1}" for node in range(LATE))]
    rows[line - 1] = "Jürgen,p1"
    return "\n".join(rows)


def written(path, data):
    if path.suffix == ".zst":
        with pa.output_stream(str(path), compression="zstd") as file:
            file.write(data)
    else:
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def ids_in(path, folder):
    config = TablesGraph.model_validate(recognize(path, None, {}).graph)
    return write_graph(read(config), config, folder).ids.to_pylist()


@pytest.mark.parametrize("line", [1, EARLY, LATE])
@pytest.mark.parametrize("name", ["my edges.csv", "edges.csv.gz", "edges.csv.zst"])
def test_another_encoding_is_refused_with_its_line_and_the_command_that_converts_the_file(tmp_path, name, line):
    path = written(tmp_path / name, content(line).encode("cp1252"))
    with pytest.raises(GraphError) as refused:
        ids_in(path, tmp_path / "graph")
    told, _, command = str(refused.value).partition("; convert the file, if that is its encoding: ")
    assert told == f"{path}: line {line:,} is not UTF-8 text"
    assert "iconv -f WINDOWS-1252 -t UTF-8" in command
    if all(shutil.which(word) for word in ("iconv", "zstd" if name.endswith("zst") else "gzip")):
        subprocess.run(command, shell=True, check=True)
        (converted,) = tmp_path.glob("*-utf8.csv")
        assert converted.read_text(encoding="utf-8") == content(line)


def test_utf_16_is_refused_with_the_command_that_converts_it(tmp_path):
    path = written(tmp_path / "edges.csv", content(EARLY).encode("utf-16"))
    with pytest.raises(GraphError, match=r"line 1 is not UTF-8 text; convert the file: iconv -f UTF-16 -t UTF-8 "):
        ids_in(path, tmp_path / "graph")
