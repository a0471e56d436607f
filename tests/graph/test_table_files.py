"""Tables in other files: compressed, in folders that name columns, and on an object store."""

import gzip
import json
import tempfile
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError, FolderError, GraphError
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.sources.read import read, source_size
from gscl_scale.graph.sources.tablefiles import files_of, sections_of, stream
from gscl_scale.run.inputs import changed_inputs, input_state, with_checksums
from gscl_scale.storage.urls import store_at
from tests.graph.tables import Machines, named_rows
from tests.s3 import BUCKET

EDGES, NODES = b"source,target\na,b\nb,c\n", b"id,x\nc,1\na,2\nb,3\n"


def graph_of(tmp_path, **tables):
    config = Config.parse({"graph": {"source": "tables", **{key: str(path) for key, path in tables.items()}}})
    return write_graph(read(config.graph), config.graph, tmp_path / "graph")


def test_csv_files_may_be_packed_with_gzip_or_zstandard(tmp_path):
    for ending, packed in ((".gz", gzip.compress(NODES)), (".zst", pa.compress(NODES, "zstd", asbytes=True))):
        (tmp_path / f"nodes.csv{ending}").write_bytes(packed)
    (tmp_path / "edges.csv.zst").write_bytes(pa.compress(EDGES, "zstd", asbytes=True))
    graphs = [
        graph_of(tmp_path / ending, edges=tmp_path / "edges.csv.zst", nodes=tmp_path / f"nodes.csv.{ending}")
        for ending in ("gz", "zst")
    ]
    assert graphs[0].fingerprint == graphs[1].fingerprint
    assert graphs[0].features.ravel().tolist() == [1, 2, 3]
    (tmp_path / "edges.csv.zst").write_bytes(pa.compress(EDGES, "zstd", asbytes=True)[:-9])
    with pytest.raises(GraphError, match=r"edges.csv.zst is truncated, empty, or not a table of its kind"):
        graph_of(tmp_path, edges=tmp_path / "edges.csv.zst")


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_names_of_folders_are_columns(tmp_path, ending):
    (tmp_path / "edges.csv").write_bytes(EDGES)
    folders = {"country=NL/year=2024": ["c", "a"], "country=New%20Zealand/year=2025": ["b"]}
    folders |= {"country=NL/year=2025": ["e", "f"], "country=__HIVE_DEFAULT_PARTITION__/year=2025": ["d", "g"]}
    for folder, ids in folders.items():
        path = tmp_path / "nodes" / folder / f"part-0.{ending}"
        path.parent.mkdir(parents=True)
        if ending == "csv":
            path.write_text("id\n" + "".join(f"{node}\n" for node in ids))
        else:
            pq.write_table(pa.table({"id": ids}), path)
    graph = graph_of(tmp_path, edges=tmp_path / "edges.csv", nodes=tmp_path / "nodes")
    assert graph.ids.to_pylist() == ["c", "a", "e", "f", "b", "d", "g"]
    assert graph.feature_columns == ["country=NL", "country=New Zealand", "country is missing", "year"]
    assert graph.features[[0, 4, 5]].tolist() == [[1, 0, 0, 2024], [0, 1, 0, 2025], [0, 0, 1, 2025]]
    (tmp_path / "edges.csv").write_text("source,target\na,c\n")  # folders above the table are none of its columns
    outside = graph_of(tmp_path / "one", edges=tmp_path / "edges.csv", nodes=tmp_path / "nodes/country=NL/year=2024")
    assert outside.manifest["feature_columns"] == []


@pytest.fixture
def bucket(s3, tmp_path, monkeypatch):
    """A folder of a bucket with tables, whose copies go to a folder of their own."""
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    url = f"s3://{BUCKET}/{uuid.uuid4().hex}"
    for name, content in {"edges.csv": EDGES, "nodes/day=1/a.csv": NODES[:9], "nodes/_SUCCESS": b""}.items():
        store_at(url).write(name, content)
    store_at(url).write("nodes/day=2/b.csv", b"id,x\na,2\nb,3\n")
    yield url
    assert list(scratch.iterdir()) == []


def test_tables_on_an_object_store_are_copied_for_a_while(bucket, tmp_path):
    graph = graph_of(tmp_path, edges=f"{bucket}/edges.csv", nodes=f"{bucket}/nodes")
    assert named_rows(graph) == {"a": {"b"}, "b": {"a", "c"}, "c": {"b"}}
    assert graph.features.tolist() == [[1, 1], [2, 2], [3, 2]]
    assert graph.manifest["options"]["edges"] == f"{bucket}/edges.csv"
    again = Config.parse({"graph": json.loads(json.dumps(graph.manifest["options"]))})
    assert source_size(again.graph).num_edges is None
    store_at(bucket).write("edges.csv", EDGES + b"z,a\n")
    with pytest.raises(GraphError, match=rf"{bucket}/edges.csv: line 4: source 'z' is not an id"):
        graph_of(tmp_path / "b", edges=f"{bucket}/edges.csv", nodes=f"{bucket}/nodes")
    with pytest.raises(FolderError, match=rf"{bucket}/other.csv does not exist, or is empty; check its name"):
        graph_of(tmp_path / "c", edges=f"{bucket}/other.csv")


def test_tasks_read_copies_in_the_folder_that_they_share(bucket, tmp_path):
    config = Config.parse({"graph": {"source": "tables", "edges": f"{bucket}/edges.csv", "nodes": f"{bucket}/nodes"}})
    shared, machines = tmp_path / "shared", Machines(2)
    draft = read(config.graph, scratch=shared, runner=machines)
    assert len(list(shared.glob("gscl-scale-tables-*/edges.csv"))) == 1
    graph = write_graph(draft, config.graph, tmp_path / "graph", runner=machines)
    assert named_rows(graph) == {"a": {"b"}, "b": {"a", "c"}, "c": {"b"}}
    del draft
    assert list(shared.glob("gscl-scale-tables-*")) == []


def test_a_change_of_a_table_on_an_object_store_is_noticed(bucket, monkeypatch):
    config = Config.parse({"graph": {"source": "tables", "edges": f"{bucket}/edges.csv", "nodes": f"{bucket}/nodes"}})
    before = with_checksums(input_state(config))
    assert sorted(before) == [f"{bucket}/{name}" for name in ("edges.csv", "nodes/day=1/a.csv", "nodes/day=2/b.csv")]
    assert changed_inputs(config, before, input_state(config)) == []
    store_at(bucket).write("edges.csv", EDGES + b"c,a\n")
    store_at(bucket).write("nodes/day=3/c.csv", b"id,x\nz,1\n")
    now = input_state(config)
    assert changed_inputs(config, before, now) == [f"{bucket}/edges.csv", f"{bucket}/nodes/day=3/c.csv"]
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("gscl_scale.storage.stores._RETRIES", {"max_retries": 0})
    assert changed_inputs(config, before, input_state(config)) == []


def test_only_tables_may_be_urls_and_only_of_stores(tmp_path):
    for values in (
        {"source": "npz", "path": "s3://bucket/a.npz"},
        {"source": "tables", "edges": "https://example.com/edges.csv"},
        {"source": "tables", "edges": "edges.csv", "encoding": "s3://bucket/run"},
    ):
        with pytest.raises(ConfigError, match=r"is a URL; expected a local path: copy or mount it"):
            Config.parse({"graph": values})
    assert Config.parse({"graph": {"source": "tables", "edges": str(tmp_path)}}).graph.edges == Path(tmp_path)


@pytest.mark.parametrize("number", [1, 2, 5, 100])
def test_sections_have_all_rows_once_and_small_files_are_read_together(tmp_path, number):
    for name, rows in (("a", 40), ("b", 1), ("c", 3), ("d", 200)):
        pq.write_table(pa.table({"id": [f"{name}{row}" for row in range(rows)]}), tmp_path / name, row_group_size=6)
        (tmp_path / name).rename(tmp_path / f"{name}.parquet")
    files = files_of(tmp_path, "edges")
    sections = sections_of(files, number)
    assert len(sections) <= number + 1 or number == 100
    rows = [
        (str(part.file), part.first_row + at, text)
        for file in (file for section in sections for file in section)
        for part in stream(file, ["id"])
        for at, text in enumerate(part.text_or_numbers("id").to_pylist())
    ]
    assert rows == [
        (f"{tmp_path}/{name}.parquet", row + 1, f"{name}{row}")
        for name, many in (("a", 40), ("b", 1), ("c", 3), ("d", 200))
        for row in range(many)
    ]
    if number == 5:
        assert max(len(section) for section in sections) > 1
        assert sum(file.path.name == "d.parquet" for section in sections for file in section) > 1
