"""`gscl-scale embed`: the run's own nodes, and those of another graph."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import gscl_scale
from gscl_scale.cli.main import app
from gscl_scale.config.config import Config
from gscl_scale.embed import store as vectors_module
from gscl_scale.embed import vector_file
from gscl_scale.embed.store import fingerprint_in, is_complete, open_embeddings, read_embeddings
from gscl_scale.errors import FolderError, GraphError, UserError
from gscl_scale.estimator import NodeEmbedder
from gscl_scale.graph.graph import Graph
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.stages.embed import copy_embeddings
from gscl_scale.stages.embed import embed as embed_stage
from gscl_scale.stages.evaluate import evaluate
from gscl_scale.stages.report import report_runs
from tests.commands import cli
from tests.graphs import make_graph, random_edges

NODES = 80
QUIET = Console(quiet=True)
SETTINGS = """
graph: {source: memory}
rings: {hops: 1, per_ring: 4, width: 8, beyond: 8, rounds: 1}
model: {encoder: sage, layers: 2, width: 8, projection: 8, feature_scaling: standard}
train: {epochs: 2, batch_size: 40}
evaluate: {train_fractions: [0.2], random_splits: 1, initialisations: 1, probe_epochs: 5, probe_weight_decay: [0.0]}
runtime: {workers: 1, device: cpu, npy: true}
"""


def features_of(nodes, width=4):
    return np.random.default_rng(0).normal(3, 2, size=(nodes, width)).astype(np.float32)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(config, run, embeddings, folder)"""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "small.yaml").write_text(SETTINGS)
    labels = np.arange(NODES) % 2
    graph = make_graph(
        folder / "graph", random_edges(NODES, 200, seed=0), NODES, features=features_of(NODES), labels=labels,
        ids=[f"user-{v}" for v in range(NODES)], columns=["age", "x", "y", "z"],
    )  # fmt: skip
    config = Config.load(folder / "small.yaml")
    vectors = np.asarray(gscl_scale.fit(graph, config, run=folder / "run"))
    return config, Run.at(folder / "run"), vectors, folder


def grown(folder, width=4, columns=()):
    """The same graph and ten nodes more."""
    edges = np.concatenate([random_edges(NODES, 200, seed=0), [[v, v - NODES] for v in range(NODES, NODES + 10)]])
    ids = [f"user-{v}" for v in range(NODES + 10)]
    return make_graph(
        folder / "grown", edges, NODES + 10, features=features_of(NODES + 10, width), ids=ids, columns=columns
    )


def test_the_files_are_as_they_always_were_and_scratch_is_gone(trained):
    _, run, vectors, _ = trained
    assert sorted(path.name for path in run.embeddings.iterdir()) == [
        "embeddings.npy", "embeddings.parquet", "manifest.json"
    ]  # fmt: skip
    assert (np.load(run.embeddings / "embeddings.npy") == vectors).all()
    table = pq.read_table(run.embeddings / "embeddings.parquet")
    assert table.column("id").to_pylist() == [f"user-{v}" for v in range(NODES)]
    assert json.loads((run.embeddings / "manifest.json").read_text())["rows"] == NODES


def test_another_graph_is_embedded_with_the_trained_model_and_its_scaling(trained, tmp_path):
    config, run, vectors, _ = trained
    graph = grown(tmp_path)
    folder = embed_stage(config, run, QUIET, graph.folder, tmp_path / "out")
    ids, found = read_embeddings(folder)
    assert ids.to_pylist()[-1] == f"user-{NODES + 9}"
    assert found.shape == (NODES + 10, 8)
    near = set(range(10))  # nodes that a new one is next to
    for v in range(10):
        near |= set(graph.indices[graph.indptr[v] : graph.indptr[v + 1]].tolist())
    far = [v for v in range(NODES) if v not in near]
    assert len(far) > 10
    assert np.abs(found[far] - vectors[far]).max() < 1e-5
    before = (tmp_path / "out/embeddings.parquet").stat().st_mtime_ns
    embed_stage(config, run, QUIET, graph.folder, tmp_path / "out")
    assert (tmp_path / "out/embeddings.parquet").stat().st_mtime_ns == before


def test_evaluate_embeds_the_untrained_encoder_in_files_that_go(trained):
    config, run, _, _ = trained
    metrics = evaluate(config, run, Console(run.log, quiet=True))
    assert 0 <= metrics["probe"]["untrained"]["test_mean"] <= 1
    assert not (run.folder / "untrained").exists()
    assert any('"stage": "evaluate", "event": "layer"' in line for line in run.log.read_text().splitlines())


def test_embeddings_that_would_fill_the_memory_are_mapped_from_a_file_that_goes(trained, tmp_path, monkeypatch):
    _, run, vectors, _ = trained
    monkeypatch.setattr(vector_file, "_ROWS_PER_GROUP", 7)
    graph = Graph.open(run.graph)
    vectors_module.write_embeddings(tmp_path / "made", graph, vectors, "made", False)
    for memory, mapped in ((4 * vectors.nbytes, False), (4 * vectors.nbytes - 1, True)):
        monkeypatch.setattr(vectors_module, "available_memory", lambda memory=memory: memory)
        with open_embeddings(tmp_path / "made", tmp_path / "place") as opened:
            assert isinstance(opened, np.memmap) == mapped
            np.testing.assert_array_equal(opened, vectors)
            assert len(list((tmp_path / "place").glob(".vectors-*"))) == mapped
        assert not list((tmp_path / "place").glob(".*"))
    content = bytearray((tmp_path / "made/embeddings.parquet").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "made/embeddings.parquet").write_bytes(content)
    with (
        pytest.raises(FolderError, match="does not match its checksum; run gscl-scale embed again"),
        open_embeddings(tmp_path / "made", tmp_path / "place"),
    ):
        pass


def test_the_figures_of_mapped_embeddings_are_the_same(trained, monkeypatch):
    config, run, _, _ = trained
    found = []
    for memory in (vectors_module.available_memory(), 0):
        monkeypatch.setattr(vectors_module, "available_memory", lambda memory=memory: memory)
        run.metrics.unlink(missing_ok=True)
        found.append(evaluate(config, run, QUIET))
        report_runs({"a": run.folder, "b": run.folder}, run.folder / "two.html", QUIET)
    assert found[0] == found[1]
    assert not [path for path in run.folder.iterdir() if path.name.startswith(".vectors") or ".run" in path.name]


def test_a_folder_that_holds_something_else_is_left_alone(trained, tmp_path):
    config, run, _, _ = trained
    graph = grown(tmp_path)
    with pytest.raises(FolderError, match="is not empty and holds no embeddings; choose another --out"):
        embed_stage(config, run, QUIET, graph.folder, graph.folder)
    assert Graph.open(graph.folder).fingerprint == graph.fingerprint


def test_other_features_are_refused_and_those_of_a_node_table_are_known_by_name(trained, tmp_path):
    config, run, _, _ = trained
    for other, says in (
        ({"width": 5}, "has 5 features per node, the encoder was trained on 4"),
        ({"columns": ["age", "y", "x", "z"]}, "has 'y' as feature column 2, the encoder was trained on 'x'; bring the"),
    ):
        with pytest.raises(GraphError, match=says):
            embed_stage(config, run, QUIET, grown(tmp_path, **other).folder, tmp_path / "out")
    weighted = make_graph(tmp_path / "weighted", [(0, 1)], 2, features=features_of(2), weights=[2.0])
    with pytest.raises(GraphError, match="weighted has edge weights, and the encoder was trained without any; ingest"):
        embed_stage(config, run, QUIET, weighted.folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    named, unnamed = grown(tmp_path / "a", columns=["age", "x", "y", "z"]), grown(tmp_path / "b")
    embedder = NodeEmbedder.load(run.folder)
    assert (embedder.transform(named) == embedder.transform(unnamed)).all()
    with pytest.raises(GraphError, match="transform: the graph has 'z' as feature column 1"):
        embedder.transform(grown(tmp_path / "c", columns=["z", "x", "y", "age"]))


def test_what_a_kill_has_left_is_cleared_away_and_embeddings_with_a_damaged_manifest_are_written_again(trained):
    config, run, _, _ = trained
    before, manifest = (run.embeddings / "embeddings.parquet").read_bytes(), run.embeddings / "manifest.json"
    (run.embeddings / "scratch").mkdir()
    embed_stage(config, run, QUIET)
    assert not (run.embeddings / "scratch").exists()
    (run.embeddings / ".embeddings.parquet.host-1.tmp").write_bytes(b"half")
    manifest.unlink()
    embed_stage(config, run, QUIET)
    assert not list(run.embeddings.glob(".*"))
    manifest.write_text(manifest.read_text().replace("1", "2"))
    embed_stage(config, run, QUIET)
    assert (run.embeddings / "embeddings.parquet").read_bytes() == before
    assert is_complete(run.embeddings, fingerprint_in(run.embeddings), config.runtime.npy)


def test_embeddings_are_copied_into_one_file_all_of_them_or_some_in_the_order_asked_for(trained, tmp_path, monkeypatch):
    _, run, vectors, _ = trained
    (tmp_path / "ids.csv").write_text("id\nuser-70\nuser-2\nuser-41\n")
    monkeypatch.setattr(vectors_module, "_BYTES_EXPORTED", 1)  # as few rows at once as there can be
    for ids, rows in ((None, range(NODES)), (tmp_path / "ids.csv", [70, 2, 41])):
        copy_embeddings(run.embeddings, tmp_path / "copy.npy", ids)
        copy_embeddings(run.embeddings, tmp_path / "copy.parquet", ids)
        copy_embeddings(run.embeddings, tmp_path / "copy.csv", ids)
        assert (np.load(tmp_path / "copy.npy") == vectors[list(rows)]).all()
        head, *lines = (tmp_path / "copy.csv").read_text().splitlines()
        assert head.replace('"', "") == ",".join(["id", *(f"x{at}" for at in range(8))])
        cells = [line.replace('"', "").split(",") for line in lines]
        assert [cell[0] for cell in cells] == [f"user-{row}" for row in rows]
        assert (np.array([cell[1:] for cell in cells]).astype(np.float32) == vectors[list(rows)]).all()
        table = pq.read_table(tmp_path / "copy.parquet")
        assert table.column("id").to_pylist() == [f"user-{row}" for row in rows]
        assert (np.array(table.column("embedding").to_pylist(), np.float32) == vectors[list(rows)]).all()
        assert table.schema == pq.read_schema(run.embeddings / "embeddings.parquet")


def test_the_command_embeds_another_graph_copies_and_refuses_what_it_cannot(trained, tmp_path):
    _, run, vectors, folder = trained

    def call(*arguments):
        words = ["embed", "--config", str(folder / "small.yaml"), "--run", str(run.folder), *map(str, arguments)]
        return CliRunner().invoke(app, words, catch_exceptions=False).output

    graph = grown(tmp_path).folder
    out = call("--graph", graph, "--out", tmp_path / "out")
    assert f"embeddings are in {tmp_path / 'out/embeddings.parquet'}" in out
    (tmp_path / "tomorrow").mkdir()
    (tmp_path / "tomorrow/graph").symlink_to(graph)
    assert "in-run" in call("--graph", tmp_path / "tomorrow", "--out", tmp_path / "in-run")
    assert (tmp_path / "in-run/embeddings.parquet").read_bytes() == (tmp_path / "out/embeddings.parquet").read_bytes()
    assert f"embeddings are in {tmp_path / 'all.npy'}" in call("--out", tmp_path / "all.npy")
    assert (np.load(tmp_path / "all.npy") == vectors).all()
    other = tmp_path / "other"
    for arguments, says in (
        (("--graph", grown(tmp_path / "wide", 5).folder, "--out", other), "has 5 features per node"),
        (("--graph", tmp_path / "nowhere", "--out", other), "nowhere"),
        (("--graph", folder / "small.yaml", "--out", other), "small.yaml is a file; run gscl-scale ingest"),
        (("--graph", graph), "give both or none"),
        (("--out", "folder"), "must end in .npy, .parquet or .csv, got folder"),
        (("--graph", graph, "--out", tmp_path / "o.parquet"), "--out is a folder for the embeddings, got the file"),
        (("--ids", "ids.csv"), "--ids names the nodes to copy; give a .npy, .parquet or .csv file"),
        (("--graph", "g", "--out", "o", "--ids", "ids.csv"), "and no --graph"),
        (("--out", "all.npy", "--ids", tmp_path / "nowhere.csv"), "nowhere.csv is no file"),
    ):
        with pytest.raises(UserError, match=says):
            call(*arguments)


def test_a_run_whose_tables_have_changed_since_embeds_another_graph_and_is_copied_but_not_made_anew(tmp_path):
    rows = "".join(f"{one},{other}\n" for one, other in random_edges(NODES, 200, seed=0))
    (tmp_path / "edges.csv").write_text(f"source,target\n{rows}")
    settings = SETTINGS.replace("{source: memory}", "{source: tables, edges: edges.csv}")
    (tmp_path / "small.yaml").write_text(settings)
    words = ("--config", "small.yaml", "--run", "run")
    assert cli("run", *words, cwd=tmp_path).returncode == 0
    with (tmp_path / "edges.csv").open("a") as file:
        file.write("0,79\n")
    assert cli("ingest", "--config", "small.yaml", "--run", "new", cwd=tmp_path).returncode == 0
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    for extra in (("--graph", "new", "--out", "emb", "--set", "runtime.workers=2"), ("--out", "all.npy")):
        done = cli("embed", *words, *extra, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before
    assert len(read_embeddings(tmp_path / "emb")[0]) == len(np.load(tmp_path / "all.npy")) == NODES
    assert "edges.csv has changed since run/graph was made from it" in cli("embed", *words, cwd=tmp_path).stderr
    with (tmp_path / "run/graph/indices.arrow").open("ab") as file:
        file.write(b"more")
    assert cli("embed", *words, "--graph", "new", "--out", "emb", cwd=tmp_path).returncode == 2
