"""The object that `fit` and `open_run` return."""

import doctest
import gc
import importlib
import os
import shutil
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

import gscl_scale
from gscl_scale import pipeline
from gscl_scale.config.config import Config
from gscl_scale.errors import FolderError, LeaseError, UserError
from gscl_scale.run.lock import lock_run
from gscl_scale.runtime.console import Console
from tests import forms
from tests.test_fit import SMALL

FEW = {"random_splits": 1, "initialisations": 2, "probe_epochs": 10, "probe_weight_decay": [0.0]}
SETTINGS = {**SMALL, "evaluate": FEW}
NAMES = [f"node-{number}" for number in range(forms.NODES)]


def tables():
    edges, nodes = forms.columns()
    edges = {**edges, "source": np.array(NAMES)[edges["source"]], "target": np.array(NAMES)[edges["target"]]}
    return pd.DataFrame(edges), pd.DataFrame({**nodes, "id": NAMES})


@pytest.fixture(scope="module")
def embeddings():
    edges, nodes = tables()
    return gscl_scale.fit(edges, SETTINGS, nodes=nodes)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run folder that the command line has finished, and its metrics."""
    folder = tmp_path_factory.mktemp("finished")
    edges, beside = forms.csv_files(folder)
    graph = {"source": "tables", "edges": str(edges), "nodes": str(beside["nodes"]), "structure": "none"}
    metrics = pipeline.run(Config.parse({**SETTINGS, "graph": graph}), folder / "run", Console(quiet=True))
    return folder / "run", metrics


def test_it_is_an_array_for_whatever_takes_arrays(embeddings):
    vectors = np.asarray(embeddings)
    assert (vectors.shape, vectors.dtype, len(embeddings)) == ((300, 8), np.float32, 300)
    assert embeddings.shape == vectors.shape
    np.testing.assert_array_equal(vectors, embeddings.vectors)
    np.testing.assert_array_equal(np.stack(list(embeddings)), vectors)
    for node, vector in zip(embeddings.ids[:3], embeddings, strict=False):
        np.testing.assert_array_equal(embeddings[node], vector)
    assert np.asarray(embeddings, np.float64).dtype == np.float64
    assert torch.as_tensor(np.asarray(embeddings)).shape == (300, 8)
    np.testing.assert_allclose(embeddings @ vectors.T, vectors @ vectors.T, atol=1e-6)  # one thread or more, other sums
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)  # a copy of the caller's own
    assert abs(embeddings.vectors - vectors).max() > 1e-3
    assert np.shares_memory(np.asarray(embeddings, copy=False), embeddings.vectors)


def test_ids_lists_of_ids_slices_and_masks_give_vectors(embeddings):
    vectors = embeddings.vectors
    assert embeddings.ids.tolist() == NAMES
    np.testing.assert_array_equal(embeddings["node-7"], vectors[7])
    np.testing.assert_array_equal(embeddings[["node-7", "node-2"]], vectors[[7, 2]])
    np.testing.assert_array_equal(embeddings[2:5], vectors[2:5])
    mask = np.arange(300) % 2 == 0
    np.testing.assert_array_equal(embeddings[mask], vectors[mask])
    assert ("node-7" in embeddings, "node-300" in embeddings) == (True, False)
    with pytest.raises(UserError, match="a run that is not kept has no node 'node-300'; the nearest ids are node-"):
        embeddings["node-300"]
    for row in (7, [7], np.array([7])):
        with pytest.raises(UserError, match=r"the ids are text, got .*7.*; rows by number are in \.vectors"):
            embeddings[row]
    frame = embeddings.to_pandas()
    assert (frame.index.name, frame.shape) == ("id", (300, 8))
    np.testing.assert_array_equal(frame.loc["node-7"], vectors[7])


def test_integer_ids_are_ids_and_not_rows(tmp_path):
    graph = nx.relabel_nodes(nx.cycle_graph(20), lambda node: 100 - node)
    found = gscl_scale.fit(graph, {**SMALL, "graph": {}})
    np.testing.assert_array_equal(found[95], found.vectors[5])
    np.testing.assert_array_equal(found[np.int64(95)], found.vectors[5])
    with pytest.raises(UserError, match="has no node 5; the nearest ids are 81"):
        found[5]
    for other in ("x", True):
        with pytest.raises(UserError, match=f"the ids are integers, got {other!r}"):
            found[other]


def test_an_unknown_id_is_a_key_error_too(embeddings):
    for unknown in ("node-300", 7, ["node-7", "node-300"]):
        for look_up in (embeddings.__getitem__, embeddings.neighbors):
            with pytest.raises(KeyError) as refused:
                look_up(unknown)
            assert isinstance(refused.value, UserError)
            assert not str(refused.value).startswith(("'", '"'))


def test_neighbours_are_the_most_similar_nodes(embeddings):
    found = embeddings.neighbors("node-7", count=4)
    unit = embeddings.vectors / np.linalg.norm(embeddings.vectors, axis=1, keepdims=True)
    cosines = unit @ unit[7]
    order = [node for node in np.argsort(-cosines, kind="stable") if node != 7][:4]
    assert [one["id"] for one in found] == [NAMES[node] for node in order]
    assert [one["rank"] for one in found] == [1, 2, 3, 4]
    assert [one["class"] for one in found] == [str(node % 3) for node in order]
    np.testing.assert_allclose([one["cosine"] for one in found], cosines[order], rtol=1e-5)
    several = [[one["id"] for one in some] for some in (found, embeddings.neighbors("node-2", count=4))]
    for asked in (["node-7", "node-2"], np.array(["node-7", "node-2"], object)):
        assert [[one["id"] for one in some] for some in embeddings.neighbors(asked, count=4)] == several
    assert embeddings.neighbors([]) == []
    for count in (0, 2.5, True):
        with pytest.raises(UserError, match=f"count expected a whole number from 1, got {count}"):
            embeddings.neighbors("node-7", count=count)


def test_figures_are_measured_once_and_a_notebook_shows_them(tmp_path):
    edges, nodes = tables()
    found = gscl_scale.fit(edges, SETTINGS, nodes=nodes, run=tmp_path / "run")
    assert "not measured yet" in found._repr_html_()
    assert not (tmp_path / "run/metrics.json").exists()
    metrics = found.metrics
    assert 0 <= metrics["probe"]["trained"]["test_mean"] <= 1
    written = (tmp_path / "run/metrics.json").stat().st_mtime_ns
    assert found.metrics == metrics
    assert (tmp_path / "run/metrics.json").stat().st_mtime_ns == written
    page = found._repr_html_()
    assert "trained encoder" in page
    assert f"{100 * metrics['probe']['trained']['test_mean']:.2f}" in page
    assert repr(found) == f"NodeEmbeddings of 300 nodes, 8 numbers each (run {tmp_path / 'run'})"


def test_a_graph_without_labels_has_the_reason_and_held_out_edges_have_figures():
    graph = forms.edge_index_numpy()[0]
    settings = {**SETTINGS, "graph": {}}
    found = gscl_scale.fit(graph, settings)
    metrics = found.metrics
    assert "probe" not in metrics
    assert f"trained encoder {100 * metrics['rings']['ranking']['accuracy']:.2f} %" in found._repr_html_()
    assert metrics["missing"]["probe"] == "the graph has no labels"
    assert metrics["rings"]["ranking"]["accuracy"] > 0
    settings = {**settings, "evaluate": {**FEW, "held_out_edges": 0.2}}
    found = gscl_scale.fit(graph, settings)
    assert 0 < found.metrics["links"]["trained"]["random"]["auc"] <= 1
    assert "AUC" in found._repr_html_()


def test_the_report_is_a_page_in_the_run_or_where_it_is_asked_for(embeddings, tmp_path):
    page = embeddings.report()
    assert page == embeddings.folder / "report.html"
    assert "How good are the embeddings?" in page.read_text()
    copy = embeddings.report(tmp_path / "new/folder/page.html")
    assert (copy, copy.read_text()[:9]) == (tmp_path / "new/folder/page.html", page.read_text()[:9])
    with pytest.raises(
        UserError, match=r"report: the page is HTML, expected a file that ends in .html, got .*page.pdf"
    ):
        embeddings.report(tmp_path / "page.pdf")
    assert not (tmp_path / "page.pdf").exists()


def test_it_is_saved_as_a_file_or_as_a_run_that_opens_again(embeddings, tmp_path):
    assert (np.load(embeddings.save(tmp_path / "vectors.npy")) == embeddings.vectors).all()
    frame = pd.read_parquet(embeddings.save(str(tmp_path / "vectors.parquet")))
    assert frame.id.tolist() == NAMES
    opened = gscl_scale.open_run(embeddings.save(tmp_path / "kept"))
    np.testing.assert_array_equal(opened, embeddings)
    assert opened.metrics == embeddings.metrics
    assert gscl_scale.NodeEmbedder.load(tmp_path / "kept").transform(opened.graph).shape == (300, 8)
    with pytest.raises(FolderError, match="kept is not empty; choose another folder"):
        embeddings.save(tmp_path / "kept")
    assert pd.read_csv(embeddings.save(tmp_path / "vectors.csv")).shape == (300, 1 + 8)
    with pytest.raises(UserError, match=r"expected a name that ends in \.npy, \.parquet or \.csv, or a folder"):
        embeddings.save(tmp_path / "vectors.txt")
    names = ["kept", "vectors.csv", "vectors.npy", "vectors.parquet"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_temporary_files_live_as_long_as_the_object():
    found = gscl_scale.fit(forms.draft()[0], SMALL)
    folder = found.folder
    assert (folder / "embeddings/embeddings.parquet").exists()
    del found
    gc.collect()
    assert not folder.parent.exists()


def test_nothing_is_left_of_a_fit_that_fails(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("gscl_scale.stages.fit.embed", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        gscl_scale.fit(forms.draft()[0], SMALL)
    assert list(tmp_path.iterdir()) == []


def test_a_run_of_the_command_line_opens_with_its_figures_and_its_page(finished):
    folder, metrics = finished
    opened = gscl_scale.open_run(folder)
    assert opened.metrics == metrics
    assert opened.report() == folder / "report.html"
    assert len(opened.neighbors(7)) == 10
    assert repr(gscl_scale.open_run(str(folder))) == f"NodeEmbeddings of 300 nodes, 8 numbers each (run {folder})"


@pytest.mark.parametrize("kept", [("graph",), ("graph", "samples"), ()], ids=str)
def test_a_copy_on_another_machine_needs_no_checkpoints(finished, tmp_path, kept):
    folder, metrics = finished
    for name in ("embeddings", *kept):
        shutil.copytree(folder / name, tmp_path / "copy" / name)
    for name in ("run.json", "metrics.json", "report.html"):
        shutil.copy(folder / name, tmp_path / "copy")
    opened = gscl_scale.open_run(tmp_path / "copy")
    np.testing.assert_array_equal(opened, gscl_scale.open_run(folder))
    assert opened.metrics == metrics
    assert "trained encoder" in opened._repr_html_()
    assert opened.report().read_text()
    assert len(opened.neighbors(7)) == 10
    (tmp_path / "copy/metrics.json").unlink()
    if "samples" in kept:
        assert opened.metrics["probe"]["trained"].keys() == metrics["probe"]["trained"].keys()
        return
    with pytest.raises(FolderError, match=r"copy has no metrics.json, and it lacks (graph/ and )?samples/, from which"):
        _ = opened.metrics
    assert "lacks" in opened._repr_html_()


def test_a_folder_that_is_read_only_is_read(finished, tmp_path, monkeypatch):
    folder, metrics = finished
    monkeypatch.setattr(os, "access", lambda *_: False)
    opened = gscl_scale.open_run(folder)
    assert (opened.metrics, opened.report()) == (metrics, folder / "report.html")


def test_what_is_no_finished_run_is_refused(tmp_path):
    with pytest.raises(FolderError, match="nowhere holds no run"):
        gscl_scale.open_run(tmp_path / "nowhere")
    gscl_scale.fit(forms.draft()[0], SMALL, run=tmp_path / "run")
    shutil.rmtree(tmp_path / "run/embeddings")
    with pytest.raises(FolderError, match="holds no finished embeddings; run gscl-scale embed first"):
        gscl_scale.open_run(tmp_path / "run")


def test_a_run_with_repeats_has_the_embeddings_of_the_first_and_the_figures_of_all(tmp_path):
    edges, beside = forms.csv_files(tmp_path)
    graph = {"source": "tables", "edges": str(edges), "nodes": str(beside["nodes"]), "structure": "none"}
    config = Config.parse({**SETTINGS, "graph": graph, "train": {**SMALL["train"], "repeats": 2}})
    metrics = pipeline.run(config, tmp_path / "run", Console(quiet=True))
    opened = gscl_scale.open_run(tmp_path / "run")
    assert (opened.metrics, opened.metrics["repeats"]["count"]) == (metrics, 2)
    assert opened.report() == tmp_path / "run/report.html"
    first = gscl_scale.open_run(tmp_path / "run/seed-0")
    np.testing.assert_array_equal(opened, first)
    assert "repeats" not in first.metrics


def test_nobody_measures_in_a_folder_in_which_another_process_works(finished, tmp_path, monkeypatch):
    shutil.copytree(finished[0], tmp_path / "run")
    (tmp_path / "run/metrics.json").unlink()
    opened = gscl_scale.open_run(tmp_path / "run")
    with lock_run(tmp_path / "run"), monkeypatch.context() as elsewhere:
        elsewhere.setattr("gscl_scale.run.lock._OURS", set())
        with pytest.raises(LeaseError, match="is being worked on by"):
            _ = opened.metrics


@pytest.mark.parametrize("name", gscl_scale.__all__)
def test_every_public_name_is_listed_and_has_an_example_that_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [one for one in dir(gscl_scale) if not one.startswith("_")] == gscl_scale.__all__
    thing = getattr(gscl_scale, name)
    tests = [test for test in doctest.DocTestFinder().find(thing, name) if test.examples]
    assert tests, f"{name} has no example"
    assert Path(importlib.import_module(thing.__module__).__file__).exists()
    for test in tests:
        results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
        assert results.failed == 0
