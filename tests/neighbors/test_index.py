import json

import numpy as np
import pytest

from gscl_scale.embed.vector_file import unit_rows
from gscl_scale.errors import RunError
from gscl_scale.neighbors import index
from gscl_scale.neighbors.exact import Nearest, exact_search
from gscl_scale.runtime.console import Console
from tests.neighbors.folders import drawn, write_folder

QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(embeddings, folder of the index, index)"""
    folder = tmp_path_factory.mktemp("index")
    embeddings = write_folder(folder / "embeddings", drawn(6000, 16), ids=np.arange(6000), group=1000)
    return embeddings, folder / "index", index.open_index(embeddings, folder / "index", QUIET)


def own_search(found, embeddings, nodes, count=10):
    return found.search(unit_rows(embeddings.take(nodes)), nodes, count)


def test_the_measured_recall_is_the_one_that_other_nodes_see(built):
    embeddings, _, found = built
    assert found.about["recall"] >= index.RECALL
    assert 1 < found.about["probes"] < found.about["lists"]  # so it is approximate
    nodes = np.arange(3, 6000, 7)
    right = exact_search(embeddings, unit_rows(embeddings.take(nodes)), nodes, 10)
    near = own_search(found, embeddings, nodes)
    same = np.mean([len(set(ours) & set(theirs)) / 10 for ours, theirs in zip(near.rows, right.rows, strict=True)])
    assert same == pytest.approx(found.about["recall"], abs=0.02)
    assert not (near.rows == nodes[:, None]).any()
    hit = near.rows == right.rows
    np.testing.assert_allclose(near.cosines[hit], right.cosines[hit], atol=1e-5)


def test_recall_counts_neighbours_that_are_missing_and_forgives_equal_ones():
    right = Nearest(np.array([[1, 2, 3]]), np.array([[0.9, 0.8, 0.7]], np.float32))
    for row, cosine, recall in ((4, 0.6, 2 / 3), (4, 0.7, 1), (-1, -np.inf, 2 / 3)):
        near = Nearest(np.array([[1, 2, row]]), np.array([[0.9, 0.8, cosine]], np.float32))
        assert index.recall_of(near, right) == recall


def test_it_is_built_once_and_mapped_from_its_file_and_built_again_it_answers_the_same(built, tmp_path, monkeypatch):
    embeddings, folder, first = built
    other = index.open_index(embeddings, tmp_path, QUIET)
    monkeypatch.setattr(index, "build_index", None)
    mapped = index.open_index(embeddings, folder, QUIET)
    nodes = np.arange(0, 6000, 11)
    expected = own_search(first, embeddings, nodes).rows
    for again in (other, mapped):
        np.testing.assert_array_equal(own_search(again, embeddings, nodes).rows, expected)


@pytest.mark.parametrize("damage", ["a byte", "cut off", "gone", "its manifest"])
def test_a_damaged_file_is_never_opened_but_built_again(tmp_path, damage, capsys):
    embeddings = write_folder(tmp_path / "embeddings", drawn(500))
    index.open_index(embeddings, tmp_path / "index", QUIET)
    path, manifest = tmp_path / "index/index.faiss", tmp_path / "index/manifest.json"
    content = path.read_bytes()
    path.unlink()  # it is mapped
    if damage == "a byte":
        path.write_bytes(content[:-9] + b"x" + content[-8:])
    elif damage == "cut off":
        path.write_bytes(content[:-9])
    elif damage == "its manifest":
        path.write_bytes(content)
        manifest.write_text(manifest.read_text().replace('"probes": ', '"probes": 1'))
    index.open_index(embeddings, tmp_path / "index", Console())
    assert "is damaged: building it again" in capsys.readouterr().err
    assert json.loads(manifest.read_text())["bytes"] == path.stat().st_size == len(content)


def test_an_index_of_other_embeddings_is_built_again(tmp_path, capsys):
    index.open_index(write_folder(tmp_path / "embeddings", drawn(500)), tmp_path / "index", QUIET)
    vectors = drawn(500, seed=1)
    embeddings = write_folder(tmp_path / "embeddings", vectors, fingerprint="another training")
    nodes = np.arange(500)
    near = own_search(index.open_index(embeddings, tmp_path / "index", Console()), embeddings, nodes)
    assert "was made from other embeddings: building it again" in capsys.readouterr().err
    right = exact_search(embeddings, unit_rows(vectors), nodes, 10)
    assert index.recall_of(near, right) > 0.95


def test_too_little_memory_is_refused_before_the_work(tmp_path, monkeypatch):
    embeddings = write_folder(tmp_path / "embeddings", drawn(500))
    monkeypatch.setattr(index, "available_memory", lambda: 1000)
    with pytest.raises(RunError, match=r"takes 111 KiB of memory while it is built, and 1 KiB are available"):
        index.open_index(embeddings, tmp_path / "index", QUIET)
    assert not (tmp_path / "index/index.faiss").exists()
