import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gscl_scale.bench import large_balls, rings, scale
from gscl_scale.cli.bench import bench
from gscl_scale.errors import UserError

FLAGS = {
    "rings": ["--config", "--set", "--hops", "--peer-hops", "--cores", "--seconds", "--turns", "--only", "--out"],
    "scale": ["--edges", "--graph", "--workers", "--turns", "--out", "--keep"],
}


@pytest.fixture
def asked(monkeypatch):
    """What the commands ask for, in place of measuring it."""
    found = {}

    def keep(name):
        return lambda *arguments: found.setdefault(name, arguments) and "the page"

    monkeypatch.setattr(rings, "bench_rings", keep("rings"))
    monkeypatch.setattr(scale, "bench_scale", keep("scale"))
    return found


def call(*arguments):
    result = CliRunner().invoke(bench, arguments, catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_the_sub_commands_and_their_flags_are_these():
    listed = call("--help")
    for name, flags in FLAGS.items():
        assert name in listed
        shown = call(name, "--help")
        assert all(f"{flag} " in shown for flag in flags)
        assert len(set(re.findall(r"--[a-z-]+", shown))) == len(flags) + 1  # and --help


def test_rings_measures_the_depth_of_the_config_unless_told_otherwise(asked):
    assert "the page" in call("rings", "--set", "rings.hops=3")
    config, what, out, _ = asked["rings"]
    assert config.rings.hops == 3
    assert what == rings.RingsBench([3], [3], 0, 5.0, 3, "gscl-scale bench rings --set rings.hops=3")
    assert out == Path("bench-results")


def test_rings_measures_the_peers_at_another_depth_where_asked(asked):
    call("rings", "--hops", "4", "--hops", "3", "--peer-hops", "2", "--cores", "1", "--turns", "2", "--out", "there")
    _, what, out, _ = asked["rings"]
    command = "gscl-scale bench rings --hops 4 --hops 3 --peer-hops 2 --cores 1 --turns 2"
    assert what == rings.RingsBench([4, 3], [2], 1, 5.0, 2, command)
    assert out == Path("there")


def test_rings_measures_one_section_where_asked(asked):
    call("rings", "--only", "large-balls", "--turns", "2")
    _, what, _, _ = asked["rings"]
    assert (what.sections, what.balls) == (("large-balls",), large_balls.BallSizes(100_001, 50_000, 50))
    assert what.command == "gscl-scale bench rings --turns 2 --only large-balls"


def test_rings_refuses_a_section_that_there_is_not(asked):
    with pytest.raises(UserError, match="--only hubs: expected tools or large-balls; leave it out to measure both"):
        call("rings", "--only", "hubs")
    assert not asked


def test_scale_draws_three_graphs_unless_told_otherwise(asked):
    call("scale", "--workers", "1")
    what, _, keep, _ = asked["scale"]
    assert (what.edges, what.graphs, what.workers, keep) == ([1_000_000, 3_000_000, 10_000_000], [], [1], None)


def test_scale_takes_graphs_that_exist_in_place_of_drawing_some(asked):
    call("scale", "--graph", "large/graph", "--keep", "kept")
    what, _, keep, _ = asked["scale"]
    assert (what.edges, what.graphs, keep) == ([], [Path("large/graph")], Path("kept"))
    asked.clear()
    call("scale", "--graph", "large/graph", "--edges", "1e6", "--edges", "2e6", "--workers", "1", "--workers", "2")
    what = asked["scale"][0]
    assert (what.edges, what.graphs, what.workers) == ([1_000_000, 2_000_000], [Path("large/graph")], [1, 2])
    assert what.command == (
        "gscl-scale bench scale --edges 1e+06 --edges 2e+06 --graph large/graph --workers 1 --workers 2"
    )
