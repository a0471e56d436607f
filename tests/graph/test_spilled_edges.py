"""Ids that do not fit the memory: the graph is the same."""

import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gscl_scale.config.graphs import TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.sources import edge_sections, id_file, id_partitions, spilled_edges, tablefiles, textfiles
from gscl_scale.graph.sources.read import read
from tests.forked import begin_program
from tests.graph.tables import AB, PAIR, Machines, ingest, save, tables
from tests.slow import examples, slow

NUMBERS = [0, 1, 2, 3, 5, -7, 10**6, 2**31, 2**40, -(2**63), 2**63 - 1, 17, 18, 19, 20]
WORDS = ["a", "b", "B", "ab", "007", "7", "é", "日本", "z" * 40, " x", "17", "-1", "+1", "q", "r"]


def small_parts(patch, partitions=7):
    """Tables are read in small parts. Returns a switch: all ids wait on disk from then on, in so many partitions."""
    patch.setattr(tablefiles, "ROWS_AT_ONCE", 7)
    patch.setattr(textfiles, "_BLOCK", 64)

    def switch():
        patch.setattr(id_file, "ID_SHARE", 1 << 62)
        patch.setattr(id_file, "IDS_AT_ONCE", 5)
        patch.setattr(edge_sections, "_EDGES_AT_ONCE", 3)
        patch.setattr(id_partitions, "_BYTES_PER_ID", 1 << 40)
        patch.setattr(id_partitions, "MOST_PARTITIONS", partitions)
        patch.setattr(spilled_edges, "MOST_PARTITIONS", partitions)

    return switch


@pytest.fixture
def on_disk(monkeypatch):
    return small_parts(monkeypatch)


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def outcome(config, folder, scratch=None, runner=None):
    """The bytes of all files of the graph, or the sentence that refuses it."""
    try:
        write_graph(read(config, scratch=scratch, runner=runner), config, folder, runner=runner)
    except GraphError as error:
        assert not folder.exists()
        return str(error)
    return content(folder)


def both(config, folder, on_disk, machines=3):
    """What becomes of tables in memory and on disk; by tasks of so many machines it is the same as on disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spilled_edges, "look_up", lambda *_, **__: pytest.fail("they fit the memory"))
        in_memory = outcome(config, folder / "graph")
    shutil.rmtree(folder / "graph", ignore_errors=True)
    on_disk()
    with pytest.MonkeyPatch.context() as patch:
        append, written = id_file.append_bytes, []
        patch.setattr(id_file, "append_bytes", lambda path, values: written.append(path) or append(path, values))
        spilled = outcome(config, folder / "graph", folder / "scratch")
    assert written
    if isinstance(spilled, dict):
        assert not (folder / "scratch/edges").exists()
    shutil.rmtree(folder / "graph", ignore_errors=True)
    assert outcome(config, folder / "graph", folder / "shared", Machines(machines)) == spilled
    return in_memory, spilled


@settings(max_examples=examples(50))
@given(st.data())
def test_the_graph_has_the_same_bytes_whether_or_not_its_ids_fit_the_memory(data):
    pool = data.draw(st.sampled_from([NUMBERS, WORDS, list(map(str, NUMBERS))]))
    ids = st.lists(st.sampled_from(pool), min_size=1, max_size=30)
    sources = data.draw(ids)
    targets = [data.draw(st.sampled_from(pool)) for _ in sources]
    edges = {"source": sources, "target": targets}
    options = {}
    if data.draw(st.booleans(), "weights"):
        edges["kg"] = [data.draw(st.sampled_from([0.5, 1.0, 3.0])) for _ in sources]
        options["weight_column"] = "kg"
    nodes = None
    if data.draw(st.booleans(), "node table"):
        known = data.draw(st.lists(st.sampled_from(pool), min_size=1, unique=data.draw(st.integers(0, 9)) > 0))
        nodes = {"id": known, "x": np.arange(len(known)) / 8}
        options["unknown_ids"] = data.draw(st.sampled_from(["refuse", "add", "drop"]))
        if options["unknown_ids"] == "drop" and data.draw(st.booleans(), "missing ids"):
            targets[-1] = None
    kind = data.draw(st.sampled_from([".parquet", ".csv"]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sources)), max_size=3), "files"))
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        config = tables(folder, edges, nodes, kind, **options)
        if cuts:
            for number, (low, high) in enumerate(zip([0, *cuts], [*cuts, len(sources)], strict=True)):
                save(folder / f"edges/{number}{kind}", {column: cells[low:high] for column, cells in edges.items()})
            config = config.model_copy(update={"edges": folder / "edges"})
        in_memory, spilled = both(config, folder, small_parts(patch), data.draw(st.integers(1, 4), "machines"))
    assert in_memory == spilled


@pytest.mark.parametrize("late", ["100,5", "a17,5"])
def test_a_text_late_in_a_text_file_makes_all_ids_text(tmp_path, on_disk, late):
    rows = [f"{number},{number + 1}" for number in range(100)]
    in_memory, spilled = both(
        tables(tmp_path, "\n".join(["source,target", *rows, late]), kind=".csv"), tmp_path, on_disk
    )
    assert in_memory == spilled


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.uint32(), pa.uint64(), pa.large_string()])
@pytest.mark.parametrize("unknown_ids", [None, "refuse", "add"])
def test_ids_keep_their_type_if_it_can_hold_all(tmp_path, on_disk, kind, unknown_ids):
    ids = pa.array([7, 3, 5]).cast(kind)
    edges = {"source": pa.array([3, 5]).cast(kind), "target": pa.array([5, 7]).cast(kind)}
    options = {"unknown_ids": unknown_ids} if unknown_ids else {}
    if unknown_ids == "add" and kind == pa.int8():
        edges["target"] = pa.array([5, 1000])
    on_disk()
    graph = ingest(tmp_path, edges, {"id": ids} if unknown_ids else None, **options)
    wider = {pa.large_string(): pa.string(), pa.int8(): pa.int64() if unknown_ids == "add" else pa.int8()}
    assert graph.ids.type == wider.get(kind, kind)
    assert len(graph.ids) == 3 + (unknown_ids == "add" and kind == pa.int8())


@pytest.mark.parametrize(("partitions", "name"), [(2, int), (255, "n{}".format), *slow((255, int), (2, "n{}".format))])
def test_any_number_of_partitions_gives_the_same_graph_and_missing_ids_are_none(
    tmp_path, monkeypatch, partitions, name
):
    draw = np.random.default_rng(0)
    edges = {
        column: [name(v) if v < 400 else None for v in draw.integers(0, 500, 60)] for column in ("source", "target")
    }
    config = tables(tmp_path, edges, {"id": [name(v) for v in range(400)]}, unknown_ids="drop")
    in_memory, spilled = both(config, tmp_path, small_parts(monkeypatch, partitions))
    assert in_memory == spilled


def test_files_of_integers_and_of_text_are_refused_as_in_memory(tmp_path, on_disk):
    save(tmp_path / "edges/1.parquet", {"source": [1, 2], "target": [3, 4]})
    save(tmp_path / "edges/2.parquet", {"source": ["a"], "target": ["b"]})
    config = TablesGraph(source="tables", edges=tmp_path / "edges")
    in_memory, spilled = both(config, tmp_path, on_disk)
    assert in_memory == spilled
    assert "2.parquet: ids in source are text and those in source of" in spilled


def many_edges(folder, last):
    ids = [f"n{number}" for number in range(60)]
    pq.write_table(pa.table({"source": ids, "target": [*ids[1:], last]}), folder / "edges.parquet", row_group_size=9)
    pq.write_table(pa.table({"id": ids}), folder / "nodes.parquet")
    return TablesGraph(source="tables", edges=folder / "edges.parquet", nodes=folder / "nodes.parquet")


@pytest.mark.parametrize(
    ("last", "says"), [("m7", "row 60: target 'm7' is not an id of"), ("", "row 60: target is em")]
)
def test_a_bad_id_in_the_last_part_is_named_with_its_row_and_no_scratch_stays(tmp_path, on_disk, last, says):
    in_memory, spilled = both(many_edges(tmp_path, last), tmp_path, on_disk)
    assert in_memory == spilled
    assert says in spilled


def test_the_first_unknown_id_is_named_whichever_end_it_is(tmp_path, on_disk):
    edges = {"source": list("aaaaxa"), "target": list("bbybbz")}
    in_memory, spilled = both(tables(tmp_path, edges, AB), tmp_path, on_disk)
    assert in_memory == spilled
    assert "row 3: target 'y' is not an id" in spilled


def test_weights_of_all_sections_are_written_as_the_first_ones_show(tmp_path, on_disk):
    for number, weight in enumerate(["1,5", "2,25", "1,500"]):
        save(tmp_path / f"edges/{number}.csv", f"source;target;kg\n{number};{number + 1};{weight}\n")
    config = TablesGraph(source="tables", edges=tmp_path / "edges", weight_column="kg", separator="semicolon")
    in_memory, spilled = both(config, tmp_path, on_disk)
    assert isinstance(spilled, dict)
    assert in_memory == spilled


def test_a_section_that_a_machine_does_not_see_is_read_by_the_driver(tmp_path, on_disk, monkeypatch):
    looked = []
    monkeypatch.setattr(edge_sections, "states_of", lambda table: looked.append(table) or [(0, 0)])
    in_memory, spilled = both(many_edges(tmp_path, "n7"), tmp_path, on_disk)
    assert in_memory == spilled
    assert len(looked) > 2


def test_repeated_ids_are_refused_with_the_first_of_them(tmp_path, on_disk):
    nodes = {"id": ["x", "b", "a", "y", "a", "b", "a"]}
    in_memory, spilled = both(tables(tmp_path, PAIR, nodes), tmp_path, on_disk)
    assert in_memory == spilled
    assert "3 node ids are repeated, such as 'b'" in spilled


def test_texts_with_equal_keys_are_told_apart(tmp_path, on_disk, monkeypatch):
    config = tables(tmp_path, {"source": ["a", "bb"], "target": ["aa", "a"]}, {"id": ["a", "aa"]})
    lengths = lambda ids: np.array([len(text) for text in ids.to_pylist()], np.uint64)  # noqa: E731
    monkeypatch.setattr("gscl_scale.seeding.identities_of", lengths)
    on_disk()
    assert "source 'bb' is not an id" in outcome(config, tmp_path / "graph")
    monkeypatch.setattr("gscl_scale.seeding.identities_of", lambda ids: np.zeros(len(ids), np.uint64))
    graph = ingest(tmp_path / "b", {"source": ["a", "c"], "target": ["b", "b"]}, {"id": ["c", "a", "b"]})
    assert graph.indices.tolist() == [2, 2, 0, 1]


def test_a_table_in_memory_may_have_ids_that_do_not_fit_once_more(on_disk):
    from gscl_scale import fit

    edges = pd.DataFrame({"source": [f"n{v}" for v in range(30)], "target": [f"n{v + 1}" for v in range(30)]})
    expected = fit(edges, epochs=1, width=8).graph.fingerprint
    on_disk()
    assert fit(edges, epochs=1, width=8).graph.fingerprint == expected


@pytest.mark.parametrize("nodes", [None, AB])
def test_scratch_goes_with_the_draft(tmp_path, on_disk, monkeypatch, nodes):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    on_disk()
    config = tables(tmp_path, PAIR, nodes)
    draft = read(config)
    assert len(list((tmp_path / "tmp").iterdir())) == 1
    write_graph(draft, config, tmp_path / "graph")
    del draft
    assert list((tmp_path / "tmp").iterdir()) == []


INGEST = """
import sys, time
from pathlib import Path
from gscl_scale.graph.sources import id_file, spilled_edges
from tests.commands import cli
id_file.ID_SHARE = 1 << 62
folder = Path(sys.argv[1])

def wait(*_, **__):
    (folder / "waits").touch()
    time.sleep(600)

if sys.argv[2] == "wait":
    spilled_edges.look_up = wait
ended = cli("ingest", "--config", folder / "mine.yaml", "--run", folder / "run", cwd=folder)
sys.exit(ended.returncode)
"""


def test_a_killed_ingest_begins_again_and_leaves_no_scratch(tmp_path, on_disk):
    config = many_edges(tmp_path, "n7")
    (tmp_path / "mine.yaml").write_text(
        f"graph: {{source: tables, edges: {config.edges}, nodes: {config.nodes}, structural_features: 8}}"
    )
    process = begin_program(INGEST, tmp_path, "wait")
    while process.is_alive() and not (tmp_path / "waits").exists():
        time.sleep(0.01)
    process.kill()
    process.join()
    assert len(list((tmp_path / "run").glob(".source-*.tmp/edges/section-*/ends-*"))) > 0
    again = begin_program(INGEST, tmp_path, "go")
    again.join()
    assert again.exitcode == 0
    assert list((tmp_path / "run").glob(".source-*")) == []
    expected = write_graph(read(config), config.model_copy(update={"structural_features": 8}), tmp_path / "expected")
    assert Graph.open(tmp_path / "run" / "graph").fingerprint == expected.fingerprint
