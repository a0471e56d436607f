"""Columns whose numbers are far larger than those of others: one scale for all of them."""

import json

import numpy as np
import pytest

from gscl_scale.errors import FolderError
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.sources import column_scales
from tests.graph.tables import PAIR, ingest

ROWS = 200
DRAW = np.random.default_rng(1)
PEOPLE = {
    "id": [f"n{row}" for row in range(ROWS)],
    "income": (DRAW.lognormal(10, 1, ROWS)).tolist(),
    "age": [None, *DRAW.integers(18, 90, ROWS - 1).tolist()],
    "joined": [f"{row % 28 + 1:02d}.{row % 12 + 1:02d}.20{row % 20:02d}" for row in range(ROWS)],
    "plan": [("gold", "free")[row % 2] for row in range(ROWS)],
    "always": [7.5] * ROWS,
    "moment": [1e12 + row % 2 for row in range(ROWS)],
}
EDGES = {"source": ["n0"], "target": ["n1"]}


@pytest.fixture(autouse=True)
def columns_are_scaled(features_as_they_are, monkeypatch):
    monkeypatch.setattr(column_scales, "_SCALES_APART", 100)


def columns(graph):
    return {name: graph.features[:, at].astype(float) for at, name in enumerate(graph.feature_columns)}


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_numbers_and_dates_are_scaled_where_one_would_drown_the_others(tmp_path, kind):
    graph = ingest(tmp_path / "a", EDGES, PEOPLE, kind=kind)
    found = columns(graph)
    for name in ("income", "age", "joined (days)"):
        assert abs(found[name].mean()) < 0.01
        assert 0.9 < found[name].std() <= 1.01
    assert (found["age"][0], found["age is missing"][0]) == (pytest.approx(0, abs=1e-6), 1)
    assert set(found["plan=gold"]) == {0, 1}
    assert set(found["always"]) == {0}
    assert np.ptp(found["moment"]) > 1  # squares have too few digits for its deviation
    income = np.array(PEOPLE["income"])
    expected = np.clip((income - income.mean()) / income.std(), -8, 8)
    np.testing.assert_allclose(found["income"], expected, rtol=1e-5, atol=1e-6)
    notes = " ".join(graph.manifest["notes"])
    assert "column moment (up to 1e+12) are far larger than those of others, so numbers and dates were scaled" in notes
    assert {one["name"]: one["made"] for one in graph.manifest["columns"]}["income"] == "a number, scaled"


def test_columns_stay_as_they_are_where_none_drowns_others_or_the_user_wants_it(tmp_path):
    few = {name: PEOPLE[name] for name in ("id", "age", "plan")}
    alike = ingest(tmp_path / "a", EDGES, few)
    assert np.nanmax(columns(alike)["age"]) == max(few["age"][1:])
    assert "far larger" not in " ".join(alike.manifest["notes"])
    wanted = ingest(tmp_path / "b", EDGES, PEOPLE, structure="none")
    np.testing.assert_allclose(columns(wanted)["income"], PEOPLE["income"], rtol=1e-6)
    assert "drown them, unless model.feature_scaling=standard scales them" in " ".join(wanted.manifest["notes"])


def test_another_table_is_read_at_the_scale_of_the_first(tmp_path):
    ingest(tmp_path / "before", EDGES, PEOPLE)
    later = {name: cells[:2] for name, cells in PEOPLE.items()} | {"id": ["a", "b"]}
    graph = ingest(tmp_path / "later", PAIR, later, encoding=tmp_path / "before")
    before = Graph.open(tmp_path / "before/graph")
    assert graph.features.tolist() == before.features[:2].tolist()
    manifest = tmp_path / "before/graph/manifest.json"
    content = json.loads(manifest.read_text())
    content["encoding"][0]["means"] = []
    del content["checksum"]
    manifest.write_text(json.dumps(content))
    with pytest.raises(FolderError, match="the stored encoding of column 'income' is damaged"):
        ingest(tmp_path / "again", PAIR, later, encoding=tmp_path / "before")


def test_an_encoding_of_an_earlier_version_scales_nothing(tmp_path):
    ingest(tmp_path / "before", EDGES, PEOPLE, structure="none")
    graph = ingest(tmp_path / "later", EDGES, PEOPLE, encoding=tmp_path / "before")
    np.testing.assert_allclose(columns(graph)["income"], PEOPLE["income"], rtol=1e-6)
