import base64
import gzip
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gscl_scale.report.compare_runs import neighbour_overlap
from gscl_scale.report.map_section import _class_table
from gscl_scale.report.node_map import draw_map, load_map
from gscl_scale.report.packed import as_json, packed, texts
from tests.maps import whole_maps
from tests.report.made import clustered, graph_of


@pytest.fixture(autouse=True, scope="module")
def _whole_maps() -> Iterator[None]:
    with whole_maps():
        yield


def test_nearest_nodes_are_those_of_a_sorted_table_of_cosines() -> None:
    vectors, _ = clustered(60, 4)
    drawn = draw_map(vectors, seed=0)
    rows = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, -2)
    assert drawn.nearest.tolist() == np.argsort(-cosines, axis=1)[:, :10].tolist()
    assert np.allclose(drawn.cosines, -np.sort(-cosines, axis=1)[:, :10], atol=1e-6)


def test_nodes_that_are_alike_stand_close_together() -> None:
    vectors, labels = clustered(300, 3)
    places = draw_map(vectors, seed=0).places
    assert ((places >= 0) & (places <= 1)).all()
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    assert (labels[apart.argmin(axis=1)] == labels).mean() > 0.95


def test_equal_vectors_and_seed_give_equal_places_and_another_seed_other_ones() -> None:
    vectors, _ = clustered(200, 3)
    first, again, other = (draw_map(vectors, seed) for seed in (0, 0, 1))
    assert first.places.tobytes() == again.places.tobytes()
    assert first.places.tobytes() != other.places.tobytes()


def test_of_many_nodes_a_sample_is_drawn() -> None:
    vectors, _ = clustered(200, 3)
    drawn = draw_map(vectors, seed=0, most=50)
    assert drawn.nodes.size == 50
    assert (np.diff(drawn.nodes) > 0).all()
    assert drawn.nearest.max() < 50
    assert draw_map(vectors, seed=1, most=50).nodes.tolist() != drawn.nodes.tolist()


@pytest.mark.parametrize("num_nodes", [2, 3, 5, 9, 20])
@pytest.mark.parametrize("kind", ["equal", "zero", "one column", "random"])
def test_few_nodes_and_vectors_without_any_difference_have_finite_places(num_nodes: int, kind: str) -> None:
    vectors = {
        "equal": np.ones((num_nodes, 4)), "zero": np.zeros((num_nodes, 4)), "one column": np.ones((num_nodes, 1)),
        "random": np.random.default_rng(0).normal(size=(num_nodes, 4)),
    }[kind].astype(np.float32)  # fmt: skip
    drawn = draw_map(vectors, seed=0)
    assert drawn.nearest.shape == (num_nodes, min(10, num_nodes - 1))
    for values in (drawn.places, drawn.cosines):
        assert np.isfinite(values).all()


def test_a_map_is_kept_until_the_embeddings_are_others(tmp_path: Path) -> None:
    vectors, _ = clustered(40, 2)
    first = load_map(tmp_path / "map", vectors, "a", seed=0)
    stamp = (tmp_path / "map/nodes.arrow").stat().st_mtime_ns
    again = load_map(tmp_path / "map", vectors, "a", seed=0)
    assert (tmp_path / "map/nodes.arrow").stat().st_mtime_ns == stamp
    assert again.places.tobytes() == first.places.tobytes()
    assert load_map(tmp_path / "map", vectors[::-1].copy(), "b", seed=0).nearest.tolist() != first.nearest.tolist()


@pytest.mark.parametrize("name", ["nodes.arrow", "manifest.json"])
def test_a_damaged_map_is_drawn_again(tmp_path: Path, name: str) -> None:
    vectors, _ = clustered(40, 2)
    first = load_map(tmp_path / "map", vectors, "a", seed=0)
    expected = {part: np.array(getattr(first, part)) for part in ("nodes", "places", "nearest", "cosines")}
    content = bytearray((tmp_path / "map" / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "map" / name).unlink()
    (tmp_path / "map" / name).write_bytes(content)
    again = load_map(tmp_path / "map", vectors, "a", seed=0)
    for part, values in expected.items():
        np.testing.assert_array_equal(getattr(again, part), values)


def test_the_overlap_of_neighbours_is_whole_for_rotated_vectors_and_chance_for_others() -> None:
    rng = np.random.default_rng(0)
    one = rng.normal(size=(101, 8)).astype(np.float32)
    turned = (one @ np.linalg.qr(rng.normal(size=(8, 8)))[0]).astype(np.float32)
    overlap = neighbour_overlap([one, turned, rng.normal(size=(101, 3)).astype(np.float32)])
    assert overlap[0, 0] == overlap[1, 1] == 1
    assert overlap[0, 1] > 0.999
    assert overlap[0, 2] == pytest.approx(0.1, abs=0.05)


def unpacked(text: str, name: str) -> dict[str, list[int]]:
    """The columns of `packed`, as a browser reads them."""
    where, data = re.findall(r"<script [^>]*>(.*?)</script>", text)
    raw = gzip.decompress(base64.b64decode(data))
    kinds = {
        "Uint8Array": "<u1", "Uint16Array": "<u2", "Int16Array": "<i2", "Uint32Array": "<u4", "Float32Array": "<f4",
        "Float64Array": "<f8",
    }  # fmt: skip
    columns = {}
    for column, (kind, offset, length) in json.loads(where).items():
        assert offset % np.dtype(kinds[kind]).itemsize == 0
        columns[column] = np.frombuffer(raw, kinds[kind], length, offset).tolist()
    return columns


def test_columns_come_out_as_they_went_in_each_begun_where_a_browser_can_read_it() -> None:
    columns: dict[str, Any] = {
        "a": np.array([1, 2, 3], np.uint8), "b": np.array([-5, 7], np.int16), "c": np.array([1 << 31], np.uint32),
        "d": np.array([], np.uint16),
    }  # fmt: skip
    assert unpacked(packed("x", columns), "x") == {name: values.tolist() for name, values in columns.items()}


@given(st.lists(st.text(), min_size=1))
def test_texts_are_cut_where_they_begin(words: list[str]) -> None:
    words = [word.encode("utf-8", "ignore").decode() for word in words]
    columns = texts(pa.array(words, pa.string()))
    letters = columns["letter"].tobytes()
    begin = columns["begin"].tolist()
    assert [letters[low:high].decode() for low, high in itertools.pairwise(begin)] == words


@given(st.text())
def test_no_text_can_end_its_element(text: str) -> None:
    element = as_json("x", [text])
    body = element.removeprefix('<script type="application/json" id="x">').removesuffix("</script>")
    assert not set("<>&") & set(body)
    assert json.loads(body) == [text]


def test_the_table_counts_which_classes_are_met_near_each(tmp_path: Path) -> None:
    vectors, labels = clustered(120, 6, width=2)
    names: list[str | None] = [None if node % 9 == 0 else f"kind {label}" for node, label in enumerate(labels)]
    drawn, rows = draw_map(vectors, seed=0), []
    for name in sorted({name for name in names if name}):
        mine = [node for node in range(120) if names[node] == name]
        near = [names[other] for node in mine for other in drawn.nearest[node] if names[other]]
        others = Counter(other for other in near if other != name)
        most = min(others, key=lambda other: (-others[other], other), default="")
        told = f"{most} ({100 * others[most] / len(near):.1f} %)" if most else "-"
        rows.append(f"{name}|{len(mine)}|{100 * near.count(name) / len(near):.1f} %|{told}")
    table = _class_table(graph_of(tmp_path / "graph", list(range(120)), names), drawn)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall("<tr>.*?</tr>", table, re.DOTALL)[1:]]
    assert sorted("|".join([name, size, own, other]) for name, size, _, own, other in cells) == rows
    assert any(not row.endswith("-") for row in rows)
