"""The user's own columns on the map: read from the node table again, and packed as far as there is room."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gscl_scale.config.config import Config
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.sources.node_cells import NodeCells, read_cells, shown_columns
from gscl_scale.graph.sources.read import read
from gscl_scale.report import map_cells as packing
from gscl_scale.report.map_cells import map_cells
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.stages.ingest import ingest
from gscl_scale.stages.report import _cells
from tests.graph.tables import PAIR, save, tables
from tests.report.test_nodemap import unpacked

NODES: dict[str, Any] = {
    "id": ["a", "b", "c", "d"],
    "age": [30, None, 7, 8],
    "joined": ["2024-01-02", "2023-05-06", None, "2024-01-02"],
    "town": ["Ulm", "Ulm", None, "Bonn"],
    "price": [0.1, 2.5, 1e9, 3.0],
    "label": ["x", "y", "x", "y"],
}
CELLS = {
    "age": [30, None, 7, 8],
    "joined": [19724, 19483, None, 19724],
    "town": ["Ulm", "Ulm", None, "Bonn"],
    "price": [0.1, 2.5, 1e9, 3.0],
}


def cells_of(tmp_path: Path, asked: list[int], nodes: Any = NODES, **options: Any) -> list[NodeCells]:
    config = tables(tmp_path, options.pop("edges", PAIR), nodes, **options)
    graph = write_graph(read(config), config, tmp_path / "graph")
    return read_cells(config, graph, shown_columns(config, graph), np.array(asked, np.int64))


def plain(cells: NodeCells) -> list[Any]:
    if cells.text is not None:
        return list(cells.text.to_pylist())
    assert cells.numbers is not None
    return [None if np.isnan(value) else value for value in cells.numbers.tolist()]


@pytest.mark.parametrize("kind", [".parquet", ".csv"])
@pytest.mark.parametrize("asked", [[0, 1, 2, 3], [0, 3], [2]])
def test_the_cells_of_the_asked_nodes_are_read_as_what_they_are(tmp_path: Path, kind: str, asked: list[int]) -> None:
    found = cells_of(tmp_path, asked, kind=kind)
    assert {one.name: plain(one) for one in found} == {
        name: [cells[node] for node in asked] for name, cells in CELLS.items()
    }
    assert [one.name for one in found if one.dated] == ["joined"]


def test_nodes_that_only_edges_name_have_no_cells_and_odd_columns_are_left_out(tmp_path: Path) -> None:
    nodes = {**NODES, "odd": [{"x": 1}] * 4, "many": [[1.0, 2.0]] * 4, "sure": [True, False, None, True]}
    edges = {"source": ["a", "new"], "target": ["b", "a"]}
    found = cells_of(tmp_path, [0, 4], nodes, edges=edges, unknown_ids="add")
    assert {one.name: plain(one) for one in found} == {
        **{name: [cells[0], None] for name, cells in CELLS.items()}, "sure": ["true", None],
    }  # fmt: skip


def test_the_cells_of_a_table_in_several_files_are_found_in_their_order(tmp_path: Path) -> None:
    for number, rows in (("1", slice(0, 2)), ("2", slice(2, 4))):
        save(tmp_path / f"nodes/{number}.parquet", {name: cells[rows] for name, cells in NODES.items()})
    config = tables(tmp_path, PAIR).model_copy(update={"nodes": tmp_path / "nodes"})
    graph = write_graph(read(config), config, tmp_path / "graph")
    found = read_cells(config, graph, shown_columns(config, graph), np.array([0, 2, 3], np.int64))
    assert {one.name: plain(one) for one in found} == {
        name: [cells[0], cells[2], cells[3]] for name, cells in CELLS.items()
    }


def test_a_table_with_other_ids_is_refused(tmp_path: Path) -> None:
    config = tables(tmp_path, PAIR, NODES)
    graph = write_graph(read(config), config, tmp_path / "graph")
    save(tmp_path / "nodes.parquet", {**NODES, "id": ["a", "b", "d", "c"]})
    with pytest.raises(GraphError, match="has other ids than the graph"):
        read_cells(config, graph, shown_columns(config, graph), np.arange(4))


def run_of(tmp_path: Path, nodes: Any) -> tuple[Config, Run]:
    config = Config(graph=tables(tmp_path, PAIR, nodes))
    run = Run.at(tmp_path / "run")
    run.folder.mkdir()
    (run.folder / "run.json").write_text("{}")
    ingest(config, run, Console(quiet=True))
    return config, run


def stage_cells(config: Config, run: Run) -> tuple[list[str], list[str]]:
    from gscl_scale.graph.graph import Graph

    cells, notes = _cells(config, run, Graph.open(run.graph), np.arange(2))
    return [one.name for one in cells], notes


def test_a_run_shows_twelve_columns_and_names_the_others(tmp_path: Path) -> None:
    config, run = run_of(tmp_path, {"id": ["a", "b"], **{f"x{number:02}": [number, 1.5] for number in range(14)}})
    names, notes = stage_cells(config, run)
    assert names == [f"x{number:02}" for number in range(12)]
    assert notes == ["Columns of the node table that are not on the map: x12, x13"]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda path: path.unlink(), "does not exist"),
        (lambda path: save(path, {"id": ["a", "b"], "x": [3.0, 4.0]}), "has changed since"),
        (lambda path: path.write_bytes(b"nothing"), "has changed since"),
    ],
    ids=["gone", "changed", "damaged"],
)
def test_a_table_that_is_gone_or_changed_leaves_a_sentence(tmp_path: Path, spoil: Any, reason: str) -> None:
    config, run = run_of(tmp_path, {"id": ["a", "b"], "x": [1.0, 2.5]})
    assert stage_cells(config, run) == (["x"], [])
    spoil(tmp_path / "nodes.parquet")
    names, (note,) = stage_cells(config, run)
    assert names == []
    assert note.startswith("No columns of the node table are on the map, because ")
    assert reason in note


def text(values: list[Any]) -> NodeCells:
    return NodeCells("words", text=pa.array(values, pa.large_string()))


def test_texts_are_numbered_by_how_often_they_are_met(tmp_path: Path) -> None:
    found = map_cells([text(["b", "a", None, "a", "c" * 500])])
    columns = unpacked(found.data, "map-cells-0")
    assert columns["cell"] == [1, 0, 3, 0, 2]
    assert bytes(columns["letter"]).decode() == "ab" + "c" * 120
    assert columns["begin"] == [0, 1, 2, 122]
    (mode,) = found.modes
    assert (mode["groups"], mode["counts"], mode["rest"]) == (["a", "b", "c" * 120], [2, 1, 1, 1], "missing")


def test_of_many_texts_the_most_frequent_have_colours() -> None:
    (mode,) = map_cells([text([f"w{min(number, 29)}" for number in range(40)])]).modes
    assert len(mode["groups"]) == 20  # type: ignore[arg-type]
    assert mode["groups"][0] == "w29"  # type: ignore[index]
    assert (mode["rest"], mode["counts"][-1]) == ("all others", 40 - 11 - 19)  # type: ignore[index]


@pytest.mark.parametrize(
    ("values", "kind", "colour"),
    [
        ([0, 10, 255], "u1", "number"),
        ([0, 70_000, 80_000], "u4", "number"),
        ([-1, 0.5, np.nan], "f4", "number"),
        ([0.1, 0.2, 0.3], "f8", "number"),
        ([1, 2, 3, 2**40 + 1], "f8", "log"),
        ([np.nan, 0.25], "f4", "number"),
    ],
)
def test_numbers_take_the_fewest_bytes_that_hold_them(values: list[float], kind: str, colour: str) -> None:
    numbers = np.array(values, float)
    packed, (mode,) = packing._compact(numbers), map_cells([NodeCells("n", numbers)]).modes
    assert f"{packed.dtype.kind}{packed.itemsize}" == kind
    np.testing.assert_array_equal(packed.astype(float), numbers)
    assert mode["kind"] == colour


def test_a_column_without_room_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(0).random(1000)
    columns = [NodeCells("one", noise), NodeCells("two", noise), text(["a"] * 1000)]
    monkeypatch.setattr(packing, "_MOST_BYTES", 14_000)
    found = map_cells(columns)
    assert [one["name"] for one in found.cells] == ["one", "words"]
    assert [mode["cell"] for mode in found.modes] == [0, 1]
    assert found.notes == ["Columns of the node table without room in this page: two"]


def test_a_column_without_a_cell_is_not_on_the_map() -> None:
    nothing = NodeCells("joined", numbers=np.full(3, np.nan), dated=True)  # its range would begin in 1970
    found = map_cells([nothing, text([None, None, None]), NodeCells("age", numbers=np.array([np.nan, 0, 7]))])
    assert [one["name"] for one in found.cells] == ["age"]
    assert found.notes == []
