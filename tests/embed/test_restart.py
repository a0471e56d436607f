"""Killed in the middle, damaged, or made from something else."""

import contextlib
import json
import os
import time

import numpy as np
import pytest

from gscl_scale.embed.layers import EncodingSettings, encode_nodes
from gscl_scale.embed.scratch import Scratch
from gscl_scale.model.scaling import Scaling
from gscl_scale.runtime.console import Console
from tests.embed.test_layers import CPU, NODES, by_layers, events, features_of, hubs, model_of
from tests.forked import begin_program
from tests.graphs import make_graph
from tests.slow import slow

SLOW = """
import sys, time, torch
from pathlib import Path
from gscl_scale.embed.layers import EncodingSettings, encode_nodes
from gscl_scale.embed import scratch
from gscl_scale.graph.graph import Graph
from gscl_scale.model.scaling import Scaling
from gscl_scale.runtime.console import Console
from tests.embed.test_layers import model_of

folder, encoder = Path(sys.argv[1]), sys.argv[2]
write = scratch.Scratch.write
scratch.Scratch.write = lambda *arguments: (time.sleep(0.02), write(*arguments))[1]
graph = Graph.open(folder / "graph")
_, model = model_of(graph, encoder=encoder)
place = EncodingSettings(folder / "scratch", "made from this", torch.device("cpu"), rows=16)
with encode_nodes(model.encoder, graph, Scaling("none"), place, Console(quiet=True)):
    raise SystemExit("it came to its end")
"""


@pytest.fixture
def graph(tmp_path):
    return make_graph(tmp_path / "graph", hubs(), NODES, features=features_of("dense", 6))


def journal(folder):
    path = folder / "scratch/journal.jsonl"
    return path.read_text().splitlines()[1:] if path.exists() else []


@pytest.mark.parametrize("encoder", ["gcn", *slow("gat")])
def test_a_killed_work_goes_on_and_repeats_no_finished_block(tmp_path, graph, encoder):
    process = begin_program(SLOW, tmp_path, encoder)
    while process.is_alive() and len(journal(tmp_path)) < 25:
        time.sleep(0.005)
    process.kill()
    process.join()
    recorded = [json.loads(line) for line in journal(tmp_path)]
    kept = sum(block["end"] - block["first"] for block in recorded)
    config, model = model_of(graph, encoder=encoder)
    assert NODES < kept < 2 * NODES
    log = Console(tmp_path / "log.jsonl", quiet=True)
    found = by_layers(graph, config, model, tmp_path, console=log, rows=16)
    begun, *steps = events(tmp_path)
    assert begun["resumed"]
    assert begun["rows_kept"] == kept == sum(step["rows_kept"] for step in steps)
    assert sum(step["blocks"] for step in steps) == len(steps) * -(-NODES // 16) - len(recorded)
    assert found.tobytes() == by_layers(graph, config, model, tmp_path, rows=16).tobytes()


def encoded(tmp_path, graph, made_from="made from this", disk_is_full=False):
    """The vectors and the log of an encoding; `disk_is_full`: nobody could copy them, so scratch stays."""
    _, model = model_of(graph)
    place = EncodingSettings(tmp_path / "scratch", made_from, CPU, rows=16)
    log = Console(tmp_path / "log.jsonl", quiet=True)
    (tmp_path / "log.jsonl").unlink(missing_ok=True)
    with contextlib.suppress(OSError), encode_nodes(model.encoder, graph, Scaling("none"), place, log) as vectors:
        found = np.array(vectors)
        if disk_is_full:
            raise OSError("the disk is full")
    return found, events(tmp_path)


@pytest.mark.parametrize(
    ("files", "blocks"),
    [(["layer-0.raw"], [0, 0]), (["layer-1.raw"], [0, 1]), (["layer-0.raw", "layer-1.raw"], [1, 1])],
)
def test_a_flipped_bit_costs_its_block_and_no_other_where_a_missing_row_depends_on_it(tmp_path, graph, files, blocks):
    expected, _ = encoded(tmp_path, graph, disk_is_full=True)
    for path in (tmp_path / "scratch" / file for file in files):
        content = bytearray(path.read_bytes())
        content[16 * 5 * 64 + 3] ^= 4  # in the block that begins at row 80
        path.write_bytes(content)
    found, (begun, *steps) = encoded(tmp_path, graph)
    assert found.tobytes() == expected.tobytes()
    assert begun["rows"] == 16 * sum(blocks)
    assert [step["blocks"] for step in steps] == blocks


def test_what_a_kill_left_of_a_line_or_a_file_is_made_again(tmp_path, graph):
    expected, _ = encoded(tmp_path, graph, disk_is_full=True)
    os.truncate(tmp_path / "scratch/layer-1.raw", 200 * 64)
    with (tmp_path / "scratch/journal.jsonl").open("a") as file:
        file.write('{"file": "layer-1.raw", "fir')
    found, (begun, *_) = encoded(tmp_path, graph)
    assert found.tobytes() == expected.tobytes()
    assert begun["rows"] == NODES - 192  # whole blocks of 16 below row 200


def test_blocks_of_another_size_go_on_where_these_ended(tmp_path, graph):
    scratch = Scratch(tmp_path / "scratch", "a", 100, {"rows.raw": 2})
    rows = np.arange(200, dtype=np.float32).reshape(100, 2)
    for first, end in ((0, 10), (30, 45), (40, 60), (90, 100)):
        scratch.record("rows.raw", first, end, scratch.write("rows.raw", first, rows[first:end]))
    assert Scratch(tmp_path / "scratch", "a", 100, {"rows.raw": 2}).missing("rows.raw") == [(10, 30), (60, 90)]


def test_scratch_of_other_weights_or_another_graph_is_removed(tmp_path, graph):
    other = make_graph(tmp_path / "other", hubs(), NODES, features=features_of("dense", 6) + 1)
    for changed, made_from in ((graph, "other weights"), (other, "made from this")):
        encoded(tmp_path, graph, disk_is_full=True)
        _, (begun, *_) = encoded(tmp_path, changed, made_from)
        assert not begun["resumed"]
        assert begun["rows_kept"] == 0
