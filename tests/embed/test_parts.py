"""Embeddings of more nodes than `runtime.embed_part_rows`: a folder of Parquet files."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gscl_scale.config.config import Config
from gscl_scale.embed import vector_file
from gscl_scale.embed.store import Embeddings, is_complete, open_embeddings, read_embeddings, take_rows
from gscl_scale.errors import FolderError
from gscl_scale.io.json import read_json
from gscl_scale.run.record import open_run
from gscl_scale.runtime.console import Console
from gscl_scale.stages.embed import embed
from gscl_scale.stages.ingest import ingest
from gscl_scale.stages.precompute import precompute
from gscl_scale.stages.train import train
from tests.graphs import random_edges

QUIET = Console(quiet=True)
NODES, PART = 50, 16


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    names = [f"Kundin {number} ß" for number in range(NODES)]
    edges = random_edges(NODES, 120, seed=0)
    pq.write_table(pa.table({"id": names}), folder / "nodes.parquet")
    pq.write_table(
        pa.table({"source": [names[a] for a, _ in edges], "target": [names[b] for _, b in edges]}),
        folder / "edges.parquet",
    )
    return {
        "graph": {"source": "tables", "nodes": str(folder / "nodes.parquet"), "edges": str(folder / "edges.parquet")},
        "rings": {"hops": 1, "width": 8, "per_ring": 4, "beyond": 4, "rounds": 1},
        "model": {"width": 8, "projection": 8},
        "train": {"epochs": 1, "negatives": 8},
    }


@pytest.fixture(scope="module")
def one_file(settings, tmp_path_factory):
    config = Config.parse(settings)
    run = open_run(config, tmp_path_factory.mktemp("run") / "run")
    for stage in (ingest, precompute, train, embed):
        stage(config, run, QUIET)
    return run


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    monkeypatch.setattr(vector_file, "_ROWS_PER_GROUP", 7)


def in_parts(settings, run, out, rows=PART):
    return embed(Config.parse({**settings, "runtime": {"embed_part_rows": rows}}), run, QUIET, out=out)


def test_parts_in_their_order_are_the_rows_of_one_file(settings, one_file, tmp_path):
    folder = in_parts(settings, one_file, tmp_path / "parts")
    ids, vectors = read_embeddings(one_file.embeddings)
    rows = folder / "embeddings.parquet"
    assert [pq.read_metadata(part).num_rows for part in sorted(rows.iterdir())] == [16, 16, 16, 2]
    assert [path.name for path in sorted(rows.iterdir())] == [f"part-{number:05}.parquet" for number in range(4)]
    assert set(read_json(folder / "manifest.json", dict, "")["files"]) == {
        f"embeddings.parquet/part-{number:05}.parquet" for number in range(4)
    }
    found = read_embeddings(folder)
    assert found[0].equals(ids)
    np.testing.assert_array_equal(found[1], vectors)
    assert pq.read_table(rows).equals(pq.read_table(one_file.embeddings / "embeddings.parquet"))
    some = np.array([49, 3, 3, 16, 47, 0, 15])
    np.testing.assert_array_equal(take_rows(folder, some), vectors[some])
    opened = Embeddings(folder)
    assert opened.ids.equals(ids)
    assert np.concatenate([block for _, block in opened.blocks()]).tobytes() == vectors.tobytes()
    assert sorted(first for first, _ in opened.blocks())[:3] == [0, 16, 32]


def test_embeddings_of_parts_are_mapped_as_those_of_a_file(settings, one_file, tmp_path, monkeypatch):
    folder = in_parts(settings, one_file, tmp_path / "parts")
    monkeypatch.setattr("gscl_scale.embed.store.available_memory", lambda: 0)
    with open_embeddings(folder, tmp_path) as vectors:
        assert isinstance(vectors, np.memmap)
        np.testing.assert_array_equal(vectors, read_embeddings(one_file.embeddings)[1])


def test_another_number_of_rows_leaves_no_part_of_before(settings, one_file, tmp_path):
    folder = in_parts(settings, one_file, tmp_path / "parts")
    fingerprint = Embeddings(folder).fingerprint
    assert is_complete(folder, fingerprint, npy=False)
    (folder / "embeddings.parquet/part-00002.parquet").unlink()
    assert not is_complete(folder, fingerprint, npy=False)
    for rows, files in ((30, 2), (0, 1), (PART, 4)):
        (folder / "manifest.json").unlink()
        in_parts(settings, one_file, folder, rows)
        assert len(read_json(folder / "manifest.json", dict, "")["files"]) == files
        assert is_complete(folder, fingerprint, npy=False)
        np.testing.assert_array_equal(read_embeddings(folder)[1], read_embeddings(one_file.embeddings)[1])
        assert len(list(folder.rglob("*.parquet"))) == files + (rows > 0)
    assert not list(folder.glob("scratch"))


def test_finished_embeddings_are_kept_whatever_their_number_of_parts(settings, one_file, tmp_path):
    folder = in_parts(settings, one_file, tmp_path / "parts")
    before = {path.name: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}
    in_parts(settings, one_file, folder, rows=0)
    assert {path.name: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")} == before


def swapped(rows):
    first, second = rows / "part-00000.parquet", rows / "part-00003.parquet"
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


def narrower(rows):
    table = pa.table({"id": ["a"], "embedding": pa.FixedSizeListArray.from_arrays(pa.array([0.5], pa.float32()), 1)})
    pq.write_table(table, rows / "part-00001.parquet")


@pytest.mark.parametrize(
    ("damage", "reader", "message"),
    [
        (lambda rows: (rows / "part-00003.parquet").unlink(), Embeddings, "expected 50 rows, got 48"),
        (
            lambda rows: (rows / "part-00001.parquet").unlink(),
            read_embeddings,
            "part-00001.*does not match its checksum",
        ),
        (swapped, read_embeddings, "part-00000.parquet does not match its checksum"),
        (narrower, Embeddings, "part-00001.parquet is damaged: expected the columns of part-00000.parquet"),
        (lambda rows: [path.unlink() for path in rows.iterdir()], Embeddings, r"expected files part-\*.parquet"),
        (lambda rows: (rows / "part-00001.parquet").write_bytes(b"PAR1"), Embeddings, "part-00001.parquet cannot be"),
    ],
)
def test_a_damaged_part_is_named_with_the_command_that_makes_it_again(
    settings, one_file, tmp_path, damage, reader, message
):
    folder = in_parts(settings, one_file, tmp_path / "parts")
    damage(folder / "embeddings.parquet")
    with pytest.raises(FolderError, match=f"{message}.*; run gscl-scale embed again"):
        reader(folder)
    in_parts(settings, one_file, folder)
    np.testing.assert_array_equal(read_embeddings(folder)[1], read_embeddings(one_file.embeddings)[1])
