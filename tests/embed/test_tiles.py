"""Rows of neighbours read in tiles, beside the same rows read where they are mapped: the same bytes."""

import numpy as np
import pytest

from gscl_scale import seeding
from gscl_scale.embed import layers, plan, tiles
from gscl_scale.embed.layer_files import block_sizes
from gscl_scale.errors import ConfigError
from tests.embed.test_block_tasks import Elsewhere
from tests.embed.test_layers import KINDS, QUIET, by_layers, events, features_of, hubs, model_of
from tests.graphs import make_graph

NODES = 1500  # a hub has more neighbours than one run of a sum, and some tiles end within its runs
GIB = 1 << 30


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    made = {}

    def graph(kind, width, undirected, weighted=False):
        key = kind, width, undirected, weighted
        if key not in made:
            edges = hubs(NODES)
            weights = seeding.generator("weights").random(len(edges)) + 0.1 if weighted else None
            made[key] = make_graph(
                tmp_path_factory.mktemp("graph") / "graph", edges, NODES, features=features_of(kind, width, NODES),
                undirected=undirected, weights=weights,
            )  # fmt: skip
        return made[key]

    return graph


def both(graph, folder, rows, **settings):
    config, model = model_of(graph, **settings)
    return [by_layers(graph, config, model, folder, rows=rows, tiles=tiled) for tiled in (False, True)]


@pytest.mark.parametrize("rows", [256, 999, 1_600])
@pytest.mark.parametrize("encoder", ["gcn", "sage"])
@pytest.mark.parametrize("undirected", [True, False], ids=["undirected", "directed"])
@pytest.mark.parametrize(("kind", "width"), KINDS)
def test_tiles_give_the_same_bytes(tmp_path, graphs, kind, width, undirected, encoder, rows):
    graph = graphs(kind, width, undirected)
    mapped, tiled = both(graph, tmp_path, rows, encoder=encoder, feature_scaling="standard")
    assert tiled.tobytes() == mapped.tobytes()


@pytest.mark.parametrize("normalisation", ["symmetric", "mean"])
@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_weights_and_every_normalisation_give_the_same_bytes(tmp_path, graphs, normalisation, self_loops, weighted):
    graph = graphs("dense", 6, True, weighted)
    mapped, tiled = both(graph, tmp_path, 400, normalisation=normalisation, self_loops=self_loops, layers=3)
    assert tiled.tobytes() == mapped.tobytes()


@pytest.mark.parametrize(("left", "tiled"), [(96_000, False), (95_999, True)])
def test_tiles_are_taken_where_the_memory_that_is_left_has_no_room(tmp_path, graphs, monkeypatch, left, tiled):
    graph = graphs("dense", 6, True)
    config, model = model_of(graph)
    monkeypatch.setattr(plan, "available_memory", lambda: 4 * GIB + left)  # a row of the widest layer: 64 bytes
    seen = []
    gather = tiles.TiledGather.read
    monkeypatch.setattr(tiles.TiledGather, "read", lambda *some: (seen.append(some[1:3]), gather(*some))[1])
    found = by_layers(graph, config, model, tmp_path)
    assert bool(seen) == tiled
    assert found.tobytes() == by_layers(graph, config, model, tmp_path, tiles=False).tobytes()
    monkeypatch.setattr(plan, "available_memory", lambda: 0)
    seen.clear()
    config, model = model_of(graph, encoder="gat")
    by_layers(graph, config, model, tmp_path)
    assert not seen


def test_each_row_is_read_once_for_a_group_and_in_order(tmp_path, graphs, monkeypatch):
    read = []
    of_file = tiles.TiledGather._tiles

    def counted(gather):
        for low, tile in of_file(gather):
            read.append((low, len(tile)))
            yield low, tile

    monkeypatch.setattr(tiles.TiledGather, "_tiles", counted)
    graph = graphs("dense", 40, True)
    config, model = model_of(graph, layers=1)
    by_layers(graph, config, model, tmp_path, rows=800, tiles=True)
    assert read == [(0, 800), (800, 700)] * 2


def test_tasks_elsewhere_are_fewer_and_write_the_same_bytes(tmp_path, graphs, monkeypatch):
    monkeypatch.setattr("gscl_scale.embed.layer_files._MOST_PIECE", 32)
    graph = graphs("dense", 40, True)
    found = []
    for setting in (False, True):
        config, model = model_of(graph)
        runner = Elsewhere()
        place = layers.EncodingSettings(
            tmp_path / "scratch", "made from this", layers.torch.device("cpu"), tiles=setting
        )
        scaling = layers.Scaling.of(graph.features, config.feature_scaling)
        with layers.encode_nodes(model.encoder, graph, scaling, place, QUIET, runner) as vectors:
            found.append((np.array(vectors).tobytes(), len(runner.tasks)))
    (mapped, many), (tiled, few) = found
    assert tiled == mapped
    assert (many, few) == (4 * few, 2 * len({task.step for task in runner.tasks}))


def test_a_bound_holds_the_sums_of_a_group_and_two_tiles():
    nodes, width = 10_000_000, 128
    mapped, tiled = (block_sizes(nodes, True, width, width, 1.0, 2, tiled=below) for below in (0, width))
    assert mapped.tile == 0
    assert tiled.block > mapped.block  # fewer groups read less
    assert tiled.block % tiled.piece == 0
    assert 0.9 * GIB < tiled.allocated <= GIB
    per_row = 2 * 4 * width + 2 * 4 * width + 8
    assert tiled.allocated - 2 * 4 * width * tiled.tile - per_row * tiled.block > 8 * nodes
    small = block_sizes(1000, True, width, width, 1.0, 2, tiled=width)
    assert small.block == small.tile == -(-1000 // small.piece) * small.piece
    with pytest.raises(ConfigError, match=r"runtime\.embed_memory_gb: 10,000,000 nodes of width 128 need at least"):
        block_sizes(nodes, True, width, width, 0.2, 2, tiled=width)


def test_the_log_tells_of_tiles(tmp_path, graphs):
    graph = graphs("dense", 6, True)
    config, model = model_of(graph)
    console = type(QUIET)(tmp_path / "log.jsonl", quiet=True)
    by_layers(graph, config, model, tmp_path, rows=500, tiles=True, console=console)
    assert events(tmp_path)[0]["tile_rows"] == 500
