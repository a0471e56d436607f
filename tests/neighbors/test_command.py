import json
import re
import subprocess
import sys
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import gscl_scale
from gscl_scale.cli.main import app
from gscl_scale.errors import FolderError, UserError
from gscl_scale.graph.label_sets import sets_from_matrix
from gscl_scale.io.arrow import write_arrow
from gscl_scale.neighbors.places import find_embeddings
from gscl_scale.registry.lease import hold_lease
from gscl_scale.registry.versions import Registry
from gscl_scale.runtime.console import Console
from gscl_scale.storage.mirror import Mirror
from gscl_scale.storage.urls import store_at
from tests.neighbors.folders import drawn, slow_nearest, write_folder, write_run
from tests.s3 import BUCKET

VECTORS = drawn(200)
LABELS = np.arange(200) % 3 - 1


def call(*arguments):
    result = CliRunner().invoke(app, ["neighbors", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("runs") / "mine", VECTORS, labels=LABELS)


def test_the_nearest_of_an_id_are_shown_with_cosine_and_class(run):
    rows, cosines = slow_nearest(VECTORS, 7, 10)
    shown = call(run, "--id", "node-7")
    lines = [line.split("│")[1:-1] for line in shown.splitlines() if line.startswith("│")]
    classes = ["", "even", "odd"]
    assert [[cell.strip() for cell in line] for line in lines] == [
        [str(rank), f"node-{row}", f"{cosine:.4f}", classes[LABELS[row] + 1]]
        for rank, (row, cosine) in enumerate(zip(rows, cosines, strict=True), start=1)
    ]
    assert "nearest to node-7, class even" in shown
    assert f"{run}: 200 nodes, exact" in shown
    assert call("--run", run, "--id", "node-7") == shown


def test_of_many_labels_all_are_shown(tmp_path):
    has = np.zeros((200, 2), bool)
    has[7], has[1] = True, [True, False]
    labels = sets_from_matrix(has, "a test")
    run = write_run(tmp_path / "run", VECTORS, labels=labels)
    answer = json.loads(call(run, "--id", "node-7", "--id", "node-0", "--json"))
    assert [node["class"] for node in answer["nodes"]] == ["even, odd", None]
    write_arrow(run / "graph/label_indptr.arrow", {"indptr": pa.array(labels.indptr[:-1])})
    result = CliRunner().invoke(app, ["neighbors", str(run), "--id", "node-7"])
    assert "label_indices.arrow is damaged: expected 200 labels of 2 classes" in str(result.exception)


def test_json_has_a_node_for_each_id(run):
    answer = json.loads(call(run, "--id", "node-7", "--id", "node-0", "--count", 2, "--json"))
    assert answer["how"] == "exact"
    assert [(node["id"], node["class"]) for node in answer["nodes"]] == [("node-7", "even"), ("node-0", None)]
    first, second = answer["nodes"][1]["neighbors"]
    assert list(first) == ["rank", "id", "cosine", "class"]
    assert [one["id"] for one in (first, second)] == [f"node-{row}" for row in slow_nearest(VECTORS, 0, 2)[0]]


@pytest.mark.parametrize("index", [[], ["--index"]])
def test_the_neighbours_of_all_nodes_or_of_those_in_a_file_go_to_a_file(run, tmp_path, index):
    call(run, "--all", "--count", 3, "--out", tmp_path / "all.parquet", *index)
    table = pq.read_table(tmp_path / "all.parquet").to_pydict()
    assert table["id"] == [f"node-{row}" for row in range(200) for _ in range(3)]
    assert table["rank"] == [1, 2, 3] * 200
    (tmp_path / "some.csv").write_text("id,other\nnode-9,x\nnode-4,y\n")
    call(run, "--ids", tmp_path / "some.csv", "--count", 3, "--out", tmp_path / "some.parquet", *index)
    some = pq.read_table(tmp_path / "some.parquet").to_pydict()
    assert some["id"] == ["node-9"] * 3 + ["node-4"] * 3
    assert some["neighbor"] == [f"node-{row}" for node in (9, 4) for row in slow_nearest(VECTORS, node, 3)[0]]
    assert table["neighbor"][27:30] == some["neighbor"][:3]
    call(run, "--all", "--count", 3, "--out", tmp_path / "all.csv", *index)
    lines = (tmp_path / "all.csv").read_text().splitlines()
    assert lines[0] == '"id","rank","neighbor","cosine"'
    assert lines[2].startswith(f'"node-0",2,"{table["neighbor"][1]}",{table["cosine"][1]:.3f}'[:-1])
    assert len(lines) == 601


@pytest.fixture
def numbered(tmp_path):
    """A run whose ids are integers."""
    return write_run(tmp_path / "run", VECTORS[:5], ids=np.array([40, 10, 30, 20, 50]))


def test_integers_are_integers_and_more_neighbours_than_there_are_are_all(numbered, tmp_path):
    node = json.loads(call(numbered, "--id", "30", "--count", 99, "--json"))["nodes"][0]
    assert node["id"] == 30
    assert sorted(one["id"] for one in node["neighbors"]) == [10, 20, 40, 50]
    assert "class" not in node["neighbors"][0]
    pq.write_table(pa.table({"id": pa.array([50, 10], pa.int32())}), tmp_path / "ids.parquet")
    call(numbered, "--ids", tmp_path / "ids.parquet", "--out", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").column("id").type == pa.int64()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--id", "node-1x"], "has no node 'node-1x'; the nearest ids are node-1"),
        (["--id", "NODE-77"], "the nearest ids are node-77"),
        ([], "expected one of --id, --ids and --all"),
        (["--id", "node-1", "--all"], "expected one of --id, --ids and --all"),
        (["--all"], "--ids and --all need --out"),
        (["--all", "--out", "all.json"], "--out names a file that ends in .parquet or .csv, got all.json"),
        (["--ids", "nowhere.csv", "--out", "x.parquet"], "nowhere.csv is no file"),
    ],
)
def test_bad_requests_are_refused_in_one_sentence(run, arguments, says):
    with pytest.raises(UserError, match=re.escape(says)) as error:
        call(run, *arguments)
    assert "\n" not in str(error.value)


def test_ids_of_another_kind_and_unknown_numbers_are_refused(numbered):
    with pytest.raises(UserError, match=r"--id: expected ids of type int64, as those of the run are: .*'node-1'"):
        call(numbered, "--id", "node-1")
    with pytest.raises(UserError, match="has no node 33; the nearest ids are 30, 40, 20"):
        call(numbered, "--id", "33")


@pytest.mark.parametrize("typed", ["u2", "U0002", "u00002"])
def test_an_id_that_differs_in_leading_zeros_and_case_is_suggested(tmp_path, typed):
    run = write_run(tmp_path / "run", VECTORS, ids=[f"u{row:04}" for row in range(200)])
    with pytest.raises(UserError, match=f"has no node '{typed}'; the nearest ids are u0002$"):
        call(run, "--id", typed)


@pytest.mark.parametrize(
    "text", ["User ID,id\nnode-2,0\n", "User ID,age\nnode-2,7\n", "id,age\nnode-2,7\n", "who\nnode-2\n"]
)
def test_the_ids_of_a_file_are_in_the_column_of_the_node_table_or_id_or_its_only_one(tmp_path, text):
    run = write_run(tmp_path / "run", VECTORS)
    manifest = {"classes": [], "options": {"id_column": "User ID"}}
    (run / "graph/manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "some.csv").write_text(text)
    call(run, "--ids", tmp_path / "some.csv", "--count", 1, "--out", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").column("id").to_pylist() == ["node-2"]
    for wrong, says in (
        ("name,age\nnode-2,7\n", "some.csv has the columns name, age; expected one named User ID or id; rename"),
        ("id\nnode-2\nnode-O2\n", "some.csv: line 3: .* has no node 'node-O2'; the nearest ids are node-2"),
        ("node-2\nnode-3\n", "some.csv begins with the id node-2, expected the name of its column; write id above it"),
    ):
        (tmp_path / "some.csv").write_text(wrong)
        with pytest.raises(UserError, match=says):
            call(run, "--ids", tmp_path / "some.csv", "--out", tmp_path / "out.parquet")


def test_ids_may_come_twice_and_must_not_be_missing(run, tmp_path):
    pq.write_table(pa.table({"id": ["node-3", "node-1", "node-3"]}), tmp_path / "ids.parquet")
    call(run, "--ids", tmp_path / "ids.parquet", "--count", 1, "--out", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").column("id").to_pylist() == ["node-3", "node-1", "node-3"]
    pq.write_table(pa.table({"id": ["node-3", None]}), tmp_path / "ids.parquet")
    with pytest.raises(UserError, match=r"ids\.parquet: row 2: .* has no node None$"):
        call(run, "--ids", tmp_path / "ids.parquet", "--out", tmp_path / "out.parquet")


def test_of_a_run_with_repeats_the_first_is_searched_unless_another_is_named(tmp_path):
    run = write_run(tmp_path / "run", VECTORS, labels=LABELS, repeats=2)
    assert f"{run}/seed-3: 200 nodes" in call(run, "--id", "node-7")
    assert "class even" in call(run / "seed-4", "--id", "node-7")


def test_a_folder_that_embed_has_written_is_searched_too_and_others_are_refused(tmp_path):
    write_folder(tmp_path / "tomorrow", VECTORS)
    assert "tomorrow: 200 nodes" in call(tmp_path / "tomorrow", "--id", "node-7")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FolderError, match="empty holds no run; expected a run folder"):
        call(tmp_path / "empty", "--id", "node-7")


def test_a_mistyped_run_is_refused_with_the_names_of_those_that_are_like_it(run):
    for mistyped in (run.with_name("mime"), run.with_name("mine2")):
        for start in (lambda place: call(place, "--id", "node-7"), gscl_scale.open_run, gscl_scale.NodeEmbedder.load):
            with pytest.raises(FolderError, match=f"{mistyped} holds no run; did you mean {run}\\?$"):
                start(mistyped)


def test_a_damaged_file_is_refused_in_one_sentence(tmp_path):
    run = write_run(tmp_path / "run", VECTORS)
    path = run / "embeddings/embeddings.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FolderError, match=r"embeddings.parquet cannot be read: .*; run gscl-scale embed again"):
        call(run, "--id", "node-7")


def test_without_faiss_the_index_is_refused_and_the_exact_search_works(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(UserError, match=r"pip install 'gscl-scale\[index\]', or leave --index out"):
        call(run, "--id", "node-7", "--index")
    call(run, "--id", "node-7")


@pytest.mark.parametrize("parts", [False, True])
def test_of_a_run_on_an_object_store_only_the_embeddings_are_brought_and_the_index_is_kept_here(
    s3, tmp_path, monkeypatch, parts
):
    monkeypatch.setenv("GSCL_SCALE_CACHE", str(tmp_path / "cache"))
    place = f"s3://{BUCKET}/{uuid.uuid4().hex}"
    local = write_run(tmp_path / "local", VECTORS, labels=LABELS, parts=parts)
    (local / "samples").mkdir()
    (local / "samples/part.arrow").write_bytes(b"x" * 1000)
    Mirror(store_at(place), local).push()
    for _ in range(2):
        assert f"{place}: 200 nodes, approximate" in call(place, "--id", "node-7", "--index")
    found = find_embeddings(place)
    assert found.embeddings.is_relative_to(tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("part.arrow"))
    assert (found.index / "index.faiss").exists()


def test_of_a_registry_the_current_version_is_searched_and_stays_as_it_is(place, tmp_path, monkeypatch):
    monkeypatch.setenv("GSCL_SCALE_CACHE", str(tmp_path / "cache"))
    local = write_run(tmp_path / "local", VECTORS, labels=LABELS)
    files = [path.relative_to(local).as_posix() for path in local.rglob("*") if path.is_file()]
    registry = Registry(place)
    with hold_lease(registry.store, 60, 0, Console(quiet=True)) as lease:
        version = registry.keep(lease, local, files, {"figures": {}, "graph": {}})
        lease.record(lambda _: {"event": "promoted", "current": version.name, "promoted": (version.name,)})
    assert f"version {version.name} of {place}: 200 nodes, approximate" in call(place, "--id", "node-7", "--index")
    kept = {name for name in store_at(place).sizes("versions") if not name.endswith("index.json")}
    assert kept == {f"versions/{version.name}/{file}" for file in files}


def test_the_command_does_not_import_torch(run):
    program = (
        "import sys\nfrom gscl_scale.cli.main import main\n"
        "try:\n    main()\nfinally:\n    print('torch' in sys.modules)"
    )
    command = [sys.executable, "-c", program, "neighbors", str(run), "--id", "node-7"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output.splitlines()[-1] == "False"
