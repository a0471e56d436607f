"""What is printed of samples that build on an earlier run: a line of the first round, and one of all rounds."""

import numpy as np

from gscl_scale.io.json import read_json_lines
from gscl_scale.runtime.console import Console
from tests.graphs import make_graph, make_samples, random_edges
from tests.shards.test_since import CONFIG


def printed(folder, name, edges, capfd, **config):
    """The lines about anchors that are sampled again, and those counts in the log."""
    config = CONFIG.model_copy(update=config)
    make_samples(folder / "old", folder / f"old-{name}", config)
    make_graph(folder / name, edges, 300)
    earlier, log = (folder / "old", folder / f"old-{name}"), folder / f"{name}.jsonl"
    capfd.readouterr()
    make_samples(folder / name, folder / f"since-{name}", config, console=Console(log), since=earlier)
    lines = [line for line in capfd.readouterr().err.splitlines() if " again" in line]
    return lines, [event["anchors_again"] for event in read_json_lines(log) if event["event"] == "since"]


def test_many_rounds_are_two_lines_and_equal_ones_are_one(tmp_path, capfd):
    edges = random_edges(300, 600, seed=2)
    make_graph(tmp_path / "old", edges, 300)
    lines, counts = printed(tmp_path, "few", edges[:-2], capfd, rounds=8)
    assert len(counts) == 8
    assert lines == [
        f"round 0: sampling {counts[0]} of 300 anchors again, copying the others from the earlier run",
        f"8 rounds: sampled {min(counts)} to {max(counts)} of 300 anchors again",
    ]
    lines, counts = printed(tmp_path, "other", random_edges(300, 900, seed=3), capfd, hops=4, beyond=40)
    assert counts == [300, 300]
    assert lines == ["round 0: sampling all 300 anchors again"]
    lines, counts = printed(tmp_path, "same", np.array(edges), capfd)
    assert (len(lines), counts) == (1, [0, 0])
