"""Single inputs that once broke a reader, or would be the worst of their kind."""

import gzip
import io
import json
import os
import pickle
import shutil
import struct
import zipfile
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from gscl_scale.config.config import Config
from gscl_scale.config.graphs import PygGraph
from gscl_scale.errors import ConfigError, FolderError, GraphError, GsclError
from gscl_scale.graph.sources import archive, ogb
from gscl_scale.graph.sources.read import read
from gscl_scale.io import atomic
from gscl_scale.io.arrow import as_rows, map_arrow, write_arrow
from gscl_scale.io.checksum import sha256_of
from gscl_scale.io.json import read_json
from gscl_scale.io.npy import read_array
from gscl_scale.io.validate import NameBelow, lines_of, parse_json, schema_error
from gscl_scale.storage.stores import LocalStore
from gscl_scale.storage.transfer import fetch_folder
from gscl_scale.train.checkpoint import load_state
from tests.hostile.mutate.arrays import any_npy, bomb_npz, npy
from tests.hostile.mutate.blind import Executes
from tests.hostile.mutate.text import YAML_BOMBS
from tests.hostile.trial import put_special
from tests.neighbors.folders import write_folder


@pytest.mark.parametrize("kind", ["pipe", "folder", "/dev/zero", "/dev/tty", "nowhere"])
@pytest.mark.parametrize(
    "reader",
    [
        read_json,
        map_arrow,
        sha256_of,
        load_state,
        lambda path: list(lines_of(path)),
        lambda path: read_array(path, "make it again"),
        lambda path: Config.load(path),
        lambda path: read(Config.parse({"graph": {"source": "npz", "path": str(path)}}).graph),
        lambda path: read(Config.parse({"graph": {"source": "tables", "edges": f"{path}.csv"}}).graph),
        lambda path: read(Config.parse({"graph": {"source": "tables", "edges": f"{path}.parquet"}}).graph),
    ],
)
def test_what_is_no_plain_file_is_refused_before_it_is_opened(tmp_path, reader, kind):
    for name in ("file", "file.csv", "file.parquet"):
        put_special(tmp_path / name, kind)
    with pytest.raises(GsclError) as told:
        reader(tmp_path / "file")
    assert "file" in str(told.value)


@given(st.binary(max_size=400))
def test_no_bytes_make_another_error_than_one_sentence(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "file"
    path.write_bytes(content)
    for reader in (read_json, map_arrow, load_state, lambda one: read_array(one, "x"), Config.load):
        try:
            reader(path)
        except GsclError as error:
            assert "\n" not in str(error)
            assert len(str(error)) < 1200


@given(st.integers(0, 2**32))
def test_no_changed_array_file_makes_another_error_than_one_sentence(tmp_path_factory, seed):
    rng = Random(seed)
    path = tmp_path_factory.mktemp("any") / "array.npy"
    path.write_bytes(any_npy(rng, npy(np.arange(6.0, dtype=np.float32).reshape(2, 3))))
    try:
        array = read_array(path, "make it again")
    except FolderError as error:
        assert "\n" not in str(error)
    else:
        assert array.nbytes <= path.stat().st_size


@pytest.mark.parametrize(
    "head", ["{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000000,), }", "(" * 3000]
)
def test_an_array_of_more_bytes_than_its_file_takes_no_memory(tmp_path, head):
    text = head.encode() + b"\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64))
    with pytest.raises(FolderError, match=r"header says 8,000,000,000,000,000|is not an array in numpy"):
        read_array(tmp_path / "a.npy", "make it again")


def test_arrays_are_those_of_numpy(tmp_path):
    for array in (
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.eye(3, dtype=np.float32)),
        np.array("text"),
        np.zeros((0, 4)),
    ):
        np.save(tmp_path / "a.npy", array)
        np.testing.assert_array_equal(read_array(tmp_path / "a.npy", ""), array)


@pytest.mark.parametrize("where", ["edge_index", "x", "y", "num_nodes", "ids", "train_mask"])
def test_pickled_objects_in_an_npz_are_never_unpickled(tmp_path, monkeypatch, where):
    monkeypatch.setenv("GSCL_HOSTILE_MARK", str(tmp_path / "executed"))
    arrays = {"edge_index": np.array([[0], [1]]), where: np.array([Executes()], object)}
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(GraphError, match="pickled objects, which are never loaded"):
        read(Config.parse({"graph": {"source": "npz", "path": str(tmp_path / "a.npz")}}).graph)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("least_mapped", "sentence"),
    [
        (1 << 40, r"edge_index.npy takes 3.0 GiB of memory and 2.0 GiB are available"),
        (1 << 20, r"edge_index.npy unpacks to 3.0 GiB and 2.0 GiB of disk are free in .*; choose another --run"),
    ],
)
def test_a_packed_array_that_memory_or_disk_does_not_hold_is_refused_by_its_head(
    tmp_path, monkeypatch, least_mapped, sentence
):
    (tmp_path / "bomb.npz").write_bytes(bomb_npz(Random(0), gigabytes=3))
    assert (tmp_path / "bomb.npz").stat().st_size < 4_000_000
    monkeypatch.setattr(archive, "LEAST_MAPPED", least_mapped)
    monkeypatch.setattr(archive, "available_memory", lambda: 2 << 30)
    monkeypatch.setattr(archive, "free_disk", lambda _: 2 << 30)
    with pytest.raises(GraphError, match=sentence):
        read(Config.parse({"graph": {"source": "npz", "path": str(tmp_path / "bomb.npz")}}).graph)


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("kind", ["torch", "legacy", "pickle"])
def test_code_in_a_checkpoint_is_never_run(tmp_path, monkeypatch, kind, protocol):
    monkeypatch.setenv("GSCL_HOSTILE_MARK", str(tmp_path / "executed"))
    path = tmp_path / "step.pt"
    if kind == "pickle":
        path.write_bytes(pickle.dumps({"model": Executes()}, protocol))
    else:
        torch.save(
            {"model": Executes()},
            path,
            pickle_protocol=max(protocol, 2),
            _use_new_zipfile_serialization=kind == "torch",
        )
    with pytest.raises(FolderError, match="no checkpoint of tensors and plain values"):
        load_state(path)
    assert not (tmp_path / "executed").exists()


def test_a_packed_checkpoint_is_refused_before_it_is_unpacked(tmp_path):
    content = io.BytesIO()
    torch.save({"model": {"w": torch.zeros(4)}}, content)
    with zipfile.ZipFile(content) as whole, zipfile.ZipFile(tmp_path / "a.pt", "w", zipfile.ZIP_DEFLATED) as packed:
        for name in whole.namelist():
            packed.writestr(name, bytes(50 << 20) if "/data/" in name else whole.read(name))
    with pytest.raises(FolderError, match="larger than it may be, or compressed"):
        load_state(tmp_path / "a.pt")


@pytest.mark.filterwarnings("ignore:Weights only load failed")
@pytest.mark.parametrize("name", ["data.pt", "class.pt", "raw"])
def test_a_pickle_in_the_folder_of_torch_geometric_that_is_no_array_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.setenv("GSCL_HOSTILE_MARK", str(tmp_path / "executed"))
    monkeypatch.setattr("torch_geometric.data.download_url", lambda *_, **__: pytest.fail("asked the network"))
    root = tmp_path / "Planetoid" / "Cora"
    for folder in ("raw", "processed"):
        (root / folder).mkdir(parents=True)
    for piece in ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"):
        (root / "raw" / f"ind.cora.{piece}").write_bytes(pickle.dumps(Executes(), protocol=2))
    if name != "raw":  # the second is what torch-geometric would open once more, and believe
        content = (Executes() if name == "data.pt" else (Path("x"), Executes()), None, dict)
        torch.save(content, root / "processed" / "data.pt")
    config = PygGraph(source="pyg", dataset="Planetoid/Cora", path=tmp_path / "Planetoid")
    with pytest.raises(GraphError, match=r"only arrays are taken|holds more than arrays"):
        read(config)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("piece", "place", "value"), [("indices", 3, 10**8), ("indices", 3, -1), ("indptr", 3, 10**8), ("indptr", -1, 0)]
)
def test_a_sparse_matrix_in_a_pickle_whose_indices_lead_elsewhere_is_refused(
    corpus, tmp_path, monkeypatch, piece, place, value
):
    monkeypatch.setattr("torch_geometric.io.fs.cp", lambda *_, **__: pytest.fail("asked the network"))
    shutil.copytree(corpus / "data/Cora/raw", tmp_path / "Cora/raw")
    matrix = sp.csr_matrix(np.eye(20, 8, dtype=np.float32))
    getattr(matrix, piece)[place] = value
    (tmp_path / "Cora/raw/ind.cora.x").write_bytes(pickle.dumps(matrix, protocol=2))
    with pytest.raises(GraphError, match=r"cannot be read: .*indices"):
        read(PygGraph(source="pyg", dataset="Planetoid/Cora", path=tmp_path))
    assert not hasattr(sp.csr_matrix, "__setstate__")


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/../../b", "", ".", "..", "a//b", "a\0b", "a/."])
def test_a_name_that_leads_out_of_its_folder_is_no_name(name):
    assert schema_error(NameBelow, name)
    assert not schema_error(NameBelow, "graph/indices.arrow")


def test_an_index_that_names_a_file_outside_its_folder_is_refused(tmp_path):
    store = LocalStore(tmp_path / "store")
    (tmp_path / "store/kept").mkdir(parents=True)
    for name in ("../../outside", "/tmp/outside"):
        index = {"files": {name: {"bytes": 1, "sha256": "0" * 64}}}
        (tmp_path / "store/kept/index.json").write_text(json.dumps(index))
        with pytest.raises(FolderError, match="expected a path below its folder"):
            fetch_folder(store, "kept", tmp_path / "copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


@pytest.mark.parametrize(
    "text", [b"[" * 100_000, b'{"a":' * 100_000, b"9" * 9999, b"\xff", b"", b"{", "{}".encode("utf-16")]
)
def test_json_that_is_none_is_told_in_one_sentence(text):
    with pytest.raises(FolderError, match="x is damaged: not valid JSON") as told:
        parse_json(text, "x", "delete it")
    assert len(str(told.value)) < 500


def test_a_text_that_memory_does_not_hold_as_values_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "manifest.json"
    with path.open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(FolderError, match="gscl-scale writes no file that large"):
        read_json(path)


def test_a_compressed_arrow_file_is_refused_before_it_is_unpacked(tmp_path):
    for kind in ("zstd", "lz4"):
        table = pa.table({"a": np.zeros(10_000_000)})
        with pa.ipc.new_file(
            str(tmp_path / "a.arrow"), table.schema, options=pa.ipc.IpcWriteOptions(compression=kind)
        ) as file:
            file.write_table(table)
        before = pa.total_allocated_bytes()
        with pytest.raises(FolderError, match="expected one uncompressed record batch"):
            map_arrow(tmp_path / "a.arrow")
        assert pa.total_allocated_bytes() - before < 1_000_000


def test_an_arrow_file_whose_first_message_has_no_head_is_refused_before_its_reader_ends_the_process(tmp_path):
    path = tmp_path / "a.arrow"
    write_arrow(path, {"row": as_rows(np.eye(2, dtype=np.float32))})
    content = bytearray(path.read_bytes())
    message = 16 + struct.unpack_from("<I", content, 16)[0]
    fields = message - struct.unpack_from("<i", content, message)[0] + 4
    content[fields + 2 : fields + 6] = bytes(4)  # neither the type of its head nor the head
    path.write_bytes(content)
    with pytest.raises(FolderError, match="does not begin with a schema"):
        map_arrow(path)


def test_a_line_of_a_log_that_nobody_wrote_is_passed_over(tmp_path):
    (tmp_path / "log.jsonl").write_bytes(b"first\n" + b"x" * 10_000_000 + b"\nlast")
    assert list(lines_of(tmp_path / "log.jsonl")) == [b"first\n", b"last"]


@pytest.mark.parametrize("bomb", YAML_BOMBS)
def test_a_config_that_is_a_bomb_is_told_in_one_sentence_or_harmless(tmp_path, monkeypatch, bomb):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(bomb)
    try:
        Config.load(tmp_path / "a.yaml").dump()
    except ConfigError as error:
        assert "\n" not in str(error)
        assert len(str(error)) < 1200
    assert [path.name for path in tmp_path.iterdir()] == ["a.yaml"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("graph: !!python/object/apply:os.mkdir ['x']", "could not determine a constructor"),
        ("train: {epochs: 1, epochs: 2}", "the key epochs is given twice, line 1"),
        (YAML_BOMBS[0], "more than 100,000 values or 50 levels, with every alias expanded"),
        ("train: &a {epochs: *a}", "more than 100,000 values or 50 levels"),
        ("[" * 1000, "more than 50 levels"),
    ],
)
def test_yaml_has_no_tags_repeated_keys_or_bombs(tmp_path, text, sentence):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(ConfigError, match=sentence):
        Config.load(tmp_path / "a.yaml")


def test_aliases_that_stay_small_are_welcome(tmp_path):
    (tmp_path / "a.yaml").write_text("rings: &a {hops: 1}\nmodel: {layers: 1}\n")
    assert Config.load(tmp_path / "a.yaml").rings.hops == 1
    (tmp_path / "a.yaml").write_text("evaluate: {train_fractions: &a [0.1, 0.5], probe_weight_decay: *a}\n")
    assert list(Config.load(tmp_path / "a.yaml").evaluate.probe_weight_decay) == [0.1, 0.5]


@pytest.mark.parametrize("name", ["edges.csv", "edges.csv.gz"])
def test_a_csv_file_of_a_million_columns_is_refused_by_its_first_line(tmp_path, name):
    content = b"\n\r\n" + ",".join(["source", "target", *(f"c{i}" for i in range(1_000_000))]).encode() + b"\n"
    (tmp_path / name).write_bytes(gzip.compress(content, 1) if name.endswith("gz") else content)
    with pytest.raises(GraphError, match=r"at least 1,000,002 columns, expected at most 65,536"):
        read(Config.parse({"graph": {"source": "tables", "edges": str(tmp_path / name)}}).graph)


def test_a_text_that_all_rows_of_a_table_share_does_not_fill_the_memory(tmp_path, monkeypatch):
    shared = pa.DictionaryArray.from_arrays(pa.array(np.zeros(200_000, np.int32)), pa.array(["x" * 1_000_000]))
    pq.write_table(pa.table({"source": shared, "target": shared}), tmp_path / "edges.parquet")
    with pytest.raises(GraphError, match="unpacks to"):
        read(Config.parse({"graph": {"source": "tables", "edges": str(tmp_path / "edges.parquet")}}).graph)


def test_a_lock_that_is_a_pipe_or_leads_elsewhere_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    for name, sentence in (("pipe", "expected a regular file"), ("link", "is a symbolic link")):
        with pytest.raises(FolderError, match=sentence), atomic.hold_file_lock(tmp_path / name):
            pass
    assert not (tmp_path / "outside").exists()


def test_vectors_that_are_not_finite_are_not_searched(tmp_path):
    rows = np.ones((8, 3), np.float32)
    rows[5, 1] = np.nan
    embeddings = write_folder(tmp_path / "embeddings", rows)
    with pytest.raises(FolderError, match="not all rows from 0 on are finite"):
        list(embeddings.blocks())


def test_a_table_of_ogb_that_unpacks_to_more_than_memory_is_refused_while_it_unpacks(tmp_path, monkeypatch):
    with gzip.open(tmp_path / "edge.csv.gz", "wb") as file:
        file.write(b"0," * (5 << 20))
    with pytest.raises(ValueError, match="unpacks to more than the 2 MiB of text"):
        ogb._refuse_large(tmp_path / "edge.csv.gz", 2 << 20)
    ogb._refuse_large(tmp_path / "edge.csv.gz", 10 << 20)
