"""The estimator of scikit-learn: trained on a graph, it embeds the nodes of others."""

import copy
import pickle
import shutil
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch_geometric.data import Data

import gscl_scale
from gscl_scale import NodeEmbedder
from gscl_scale.config.config import Config
from gscl_scale.embed.rotation import write_rotation
from gscl_scale.embed.store import read_embeddings
from gscl_scale.errors import FolderError, GraphError, LeaseError
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.sources.pyg import draft_from_data
from gscl_scale.registry.locate import LocatedRun
from gscl_scale.run.folder import Run
from gscl_scale.run.lock import lock_run
from gscl_scale.runtime.console import Console
from gscl_scale.stages.embed import embed as embed_stage
from tests.embed.test_stage import NODES, grown, trained  # noqa: F401
from tests.graphs import random_edges
from tests.test_fit import SMALL

SETTINGS = {
    **SMALL,
    "model": {"encoder": "sage", "width": 8, "projection": 8, "feature_scaling": "standard"},
}


def drawn(nodes=80, width=4, seed=0):
    edges = torch.from_numpy(random_edges(nodes, 200, seed).T.copy())
    features = np.random.default_rng(seed).normal(3, 2, size=(nodes, width)).astype(np.float32)
    return Data(x=torch.from_numpy(features), edge_index=edges)


@pytest.fixture(scope="module")
def fitted():
    return NodeEmbedder(SETTINGS).fit(drawn())


def test_it_embeds_its_own_graph_as_fit_does(fitted):
    embeddings = gscl_scale.fit(drawn(), SETTINGS)
    np.testing.assert_array_equal(fitted.transform(drawn()), embeddings)
    np.testing.assert_array_equal(NodeEmbedder(SETTINGS).fit_transform(drawn()), embeddings)


def test_a_finished_run_embeds_another_graph_as_the_command_does(trained, tmp_path):  # noqa: F811
    config, run, _, _ = trained
    graph = grown(tmp_path)
    made = embed_stage(config, run, Console(quiet=True), graph.folder, tmp_path / "out")
    found = NodeEmbedder.load(run.folder).transform(graph)
    np.testing.assert_array_equal(found, read_embeddings(made)[1])
    assert len(found) == NODES + 10


def test_ring_samples_embeddings_and_pages_are_not_needed_to_embed_another_graph(trained, tmp_path):  # noqa: F811
    _, run, _, _ = trained
    graph = grown(tmp_path)
    wanted = []

    def fetched(where, purpose, is_wanted):
        for path in Path(where).rglob("*"):
            name = path.relative_to(where).as_posix()
            if path.is_file() and is_wanted(name):
                wanted.append(name)
                (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, tmp_path / "copy" / name)
        return LocatedRun(where, Run.at(tmp_path / "copy"), own=False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gscl_scale.estimator.find_run", fetched)
        found = NodeEmbedder.load(run.folder).transform(graph)
    np.testing.assert_array_equal(found, NodeEmbedder.load(run.folder).transform(graph))
    assert "samples/manifest.json" in wanted
    assert not any(name.startswith(("samples/round", "embeddings", "report")) for name in wanted)


def test_a_rotated_run_gives_rotated_rows_of_new_nodes_too(trained, tmp_path):  # noqa: F811
    config, run, _, _ = trained
    other = Run.at(tmp_path / "run")
    for name in ("graph", "samples", "checkpoints"):
        (tmp_path / "run").mkdir(exist_ok=True)
        (tmp_path / "run" / name).symlink_to(run.folder / name)
    (tmp_path / "run/run.json").write_bytes((run.folder / "run.json").read_bytes())
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))[0].astype(np.float32)
    write_rotation(other.rotation, turn)
    graph = grown(tmp_path)
    made = embed_stage(config, other, Console(quiet=True), graph.folder, tmp_path / "out")
    turned = NodeEmbedder.load(tmp_path / "run").transform(graph)
    np.testing.assert_array_equal(turned, read_embeddings(made)[1])
    assert np.abs(turned - NodeEmbedder.load(run.folder).transform(graph)).max() > 0.1


def test_new_nodes_alone_are_embedded_in_their_order_and_nothing_is_changed(fitted):
    new = drawn(nodes=30, seed=1)
    before, weights = copy.deepcopy(new), copy.deepcopy(fitted.encoder_.state_dict())
    found = fitted.transform(new)
    assert found.shape == (30, 8)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(0))
    place = torch.argsort(order)
    shuffled = Data(x=new.x[order], edge_index=place[new.edge_index])
    np.testing.assert_allclose(fitted.transform(shuffled), found[order], atol=1e-5)
    assert torch.equal(new.x, before.x)
    assert torch.equal(new.edge_index, before.edge_index)
    assert all(torch.equal(value, weights[name]) for name, value in fitted.encoder_.state_dict().items())


def test_it_can_be_pickled_and_needs_no_folder(fitted):
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(drawn()), fitted.transform(drawn()))


def test_one_that_was_trained_on_a_gpu_embeds_where_there_is_none(fitted):
    other = pickle.loads(pickle.dumps(fitted))
    other.config_ = fitted.config_.model_copy(
        update={"runtime": fitted.config_.runtime.model_copy(update={"device": "cuda"})}
    )
    np.testing.assert_allclose(other.transform(drawn()), fitted.transform(drawn()), rtol=1e-4, atol=1e-5)
    assert {parameter.device.type for parameter in other.encoder_.parameters()} == {"cpu"}


def test_of_a_run_with_repeats_it_is_the_first_and_a_finished_one_is_only_read(tmp_path):
    settings = {**SETTINGS, "train": {**SETTINGS["train"], "repeats": 2}}
    first = NodeEmbedder(settings, run=tmp_path / "run").fit_transform(drawn())
    np.testing.assert_array_equal(first, gscl_scale.fit(drawn(), SETTINGS))
    log = (tmp_path / "run/seed-0/log.jsonl").read_text()
    assert '"step"' in log
    np.testing.assert_array_equal(NodeEmbedder.load(tmp_path / "run").transform(drawn()), first)
    np.testing.assert_array_equal(gscl_scale.fit(drawn(), settings, run=tmp_path / "run"), first)
    assert (tmp_path / "run/seed-0/log.jsonl").read_text().count('"step"') == log.count('"step"')
    assert not (tmp_path / "run/checkpoints").exists()


def test_scikit_learn_clones_it_sets_its_parameters_and_puts_it_into_a_pipeline(fitted):
    again = clone(fitted)
    assert again.get_params(deep=False) == NodeEmbedder(SETTINGS).get_params(deep=False)
    assert not hasattr(again, "encoder_")
    assert again.set_params(quiet=False).quiet is False
    assert fitted.get_feature_names_out().tolist() == [f"nodeembedder{number}" for number in range(8)]
    line = make_pipeline(NodeEmbedder(SETTINGS), StandardScaler())
    np.testing.assert_allclose(line.fit_transform(drawn()), StandardScaler().fit_transform(fitted.transform(drawn())))
    assert line.transform(drawn(30, seed=1)).shape == (30, 8)


def test_without_fit_and_with_other_features_it_says_so(fitted, tmp_path):
    with pytest.raises(NotFittedError):
        NodeEmbedder().transform(drawn())
    with pytest.raises(GraphError, match="the graph has 5 features per node, the encoder was trained on 4; bring"):
        fitted.transform(drawn(width=5))
    with pytest.raises(FolderError, match="nowhere holds no run"):
        NodeEmbedder.load(tmp_path / "nowhere")


def test_a_part_of_a_graph_without_features_is_warned_of_and_one_with_other_ids_is_refused():
    blocks = [[0.08 if one == other else 0.004 for other in range(6)] for one in range(6)]
    graph = nx.Graph(nx.stochastic_block_model([50] * 6, blocks, seed=1).edges)
    embedder = NodeEmbedder({**SMALL, "graph": {}}).fit(graph)
    with pytest.warns(
        UserWarning, match=r"transform: the graph and the graph of the training have \d+ nodes in"
    ) as told:
        embedder.transform(graph.subgraph(range(3)))
    assert told[0].filename == __file__
    order = np.random.default_rng(0).permutation(list(graph))
    with pytest.raises(GraphError, match="check that an id means the same node in both graphs"):
        embedder.transform(nx.relabel_nodes(graph, dict(zip(graph, order.tolist(), strict=True))))


def test_half_a_graph_that_a_kill_has_left_in_the_run_folder_is_copied_again(tmp_path, monkeypatch):
    graph = write_graph(draft_from_data(drawn(), "data"), Config().graph, tmp_path / "graph")
    whole = shutil.copytree

    def killed(source, target, **options):
        whole(source, target, **options)
        (Path(target) / "indices.arrow").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as killing:
        killing.setattr("shutil.copytree", killed)
        with pytest.raises(KeyboardInterrupt):
            NodeEmbedder(SETTINGS, run=tmp_path / "run").fit(graph)
    assert not (tmp_path / "run/graph").exists()
    NodeEmbedder(SETTINGS, run=tmp_path / "run").fit(graph)
    with (
        lock_run(tmp_path / "other"),  # as a command that works there
        monkeypatch.context() as elsewhere,
    ):
        elsewhere.setattr("gscl_scale.run.lock._OURS", set())
        with pytest.raises(LeaseError, match="is being worked on by"):
            NodeEmbedder(SETTINGS, run=tmp_path / "other").fit(graph)


def test_edges_are_held_out_of_the_graph_that_it_is_fitted_on_and_of_no_graph_that_it_embeds(tmp_path):
    settings, data = {**SETTINGS, "evaluate": {"held_out_edges": 0.2}}, drawn()
    one, again = (NodeEmbedder(settings, tmp_path / "run") for _ in range(2))
    embeddings = one.fit_transform(data)
    np.testing.assert_array_equal(again.fit_transform(data), embeddings)  # the same graph, with these edges held out
    kept = Graph.open(tmp_path / "run/graph")
    whole = write_graph(
        draft_from_data(data, "data"),
        Config.parse({"graph": {"source": "memory", "structure": "none"}}).graph,
        tmp_path / "g",
    )
    assert kept.indices.size < whole.indices.size
    np.testing.assert_array_equal(one.transform(data), one.transform(whole))
    np.testing.assert_array_equal(one.transform(kept), embeddings)
    assert (one.transform(data) != embeddings).any()
    with pytest.raises(GraphError, match=r"evaluate.held_out_edges: .* was ingested with all edges"):
        NodeEmbedder(settings).fit(whole)


def test_edge_weights_reach_the_embeddings_and_an_encoder_asks_for_graphs_like_its_own(fitted):
    data, plain = drawn(), drawn()
    data.edge_weight = torch.rand(200, generator=torch.Generator().manual_seed(1)) * 3 + 0.01
    embedder = NodeEmbedder(SETTINGS)
    rows = embedder.fit_transform(data)
    np.testing.assert_allclose(embedder.transform(data), rows, atol=1e-5)
    assert abs(rows - fitted.transform(plain)).max() > 0.01
    data.edge_weight *= torch.arange(200) % 2 + 0.1
    assert abs(embedder.transform(data) - rows).max() > 0.01
    with pytest.raises(GraphError, match="transform: the graph has edge weights, and the encoder was trained without"):
        fitted.transform(data)
    with pytest.raises(GraphError, match="transform: the graph has no edge weights, and the encoder was trained with"):
        embedder.transform(plain)
