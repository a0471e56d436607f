"""What the commands ask of the benches."""

from pathlib import Path

import pytest

from gscl_scale.bench.harness import taken_cores
from gscl_scale.bench.rings import bench_rings
from gscl_scale.config.config import Config
from gscl_scale.errors import UserError
from gscl_scale.machine import usable_cores
from tests.bench.conftest import flags_of, quiet_bench

FLAGS = {
    "rings": "--config --set --hops --peer-hops --cores --seconds --turns --only --out",
    "changes": "--config --set --share --turns --out",
    "scale": "--edges --graph --workers --turns --out --keep",
    "train": "--config --set --device --steps --ideas --no-ideas --turns --out",
    "embed": "--edges --graph --encoder --layers --width --memory-gb --turns --out --keep",
    "memory": "--config --set --graph --steps --out --keep",
    "neighbors": "--rows --embeddings --width --out --keep",
    "report": "--turns --out",
    "start": "--spinning --turns --out",
    "plan": "--scale --out",
}


@pytest.mark.parametrize("name", FLAGS)
def test_the_flags_of_a_bench_are_these(name):
    assert flags_of(name) == set(FLAGS[name].split())


@pytest.mark.parametrize(
    "words",
    [
        "rings --set rings.hops=3",
        "rings --hops 4 --hops 3 --peer-hops 2 --cores 1 --seconds 0.25 --turns 2 --only large-balls",
        "changes --set rings.hops=2 --share 0.001 --share 0.123456789",
        "scale --edges 1e+06 --edges 12345678.0 --graph large/graph --workers 1 --workers 2",
        "train --set train.batch_size=64 --no-ideas --turns 1",
        "embed --graph large/graph --encoder gat --width 64",
        "memory --set train.batch_size=64 --graph large/graph --steps 4",
        "neighbors --embeddings run/embeddings --width 64",
        "report --turns 2 runs/a 'runs/of two words'",
        "start --spinning --turns 1",
        "plan --scale 0.5",
    ],
)
def test_the_page_names_the_options_that_were_given_but_not_the_folders_of_results(asked, words):
    name, *arguments = words.replace("'", "").replace("of two words", "of_two_words").split()
    bench = asked(name, *(word.replace("of_two_words", "of two words") for word in arguments), "--out", "there")
    assert bench.command == f"gscl-scale bench {words}"
    assert (bench.name, bench.out) == (name, Path("there"))


def test_rings_measures_the_depth_of_the_config_by_default(asked):
    bench = asked("rings", "--set", "rings.hops=3")
    assert (bench.config.rings.hops, bench.our_depths, bench.peer_depths) == (3, [3], [3])
    assert (bench.seconds, bench.turns, bench.only) == (5.0, 3, None)
    assert (bench.core_ids, bench.out) == (usable_cores(), Path("bench-results"))


def test_rings_measures_other_depths_and_one_section_on_demand(asked):
    call = "--hops", "4", "--hops", "3", "--peer-hops", "2", "--cores", "1", "--turns", "2", "--only", "large-balls"
    bench = asked("rings", *call)
    assert (bench.our_depths, bench.peer_depths, bench.only) == ([4, 3], [2], "large-balls")
    assert (len(bench.core_ids), bench.turns) == (1, 2)
    assert asked("rings", "--hops", "4").peer_depths == [4]


def test_rings_refuses_an_unknown_section(tmp_path):
    bench = quiet_bench("rings", tmp_path, config=Config.load(None, []), only="hubs")
    with pytest.raises(UserError, match="--only hubs: expected tools or large-balls; leave it out to measure both"):
        bench_rings(bench)


def test_more_cores_than_there_are_are_refused(asked):
    assert taken_cores(1) == taken_cores(0)[:1]
    with pytest.raises(UserError, match="--cores 4096 asks for more than the"):
        asked("rings", "--cores", "4096")


@pytest.mark.parametrize(
    ("words", "drawn"),
    [
        ("scale", [1_000_000, 3_000_000, 10_000_000]),
        ("scale --graph large/graph", []),
        ("scale --graph large/graph --edges 2e6 --edges 1e6", [1_000_000, 2_000_000]),
        ("embed", [1_000_000, 10_000_000]),
        ("embed --graph large/graph", []),
        ("neighbors", [100_000, 1_000_000]),
        ("neighbors --embeddings run/embeddings", []),
    ],
)
def test_folders_that_exist_are_measured_in_place_of_the_drawn_inputs(asked, words, drawn):
    assert asked(*words.split()).sizes == drawn


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("scale", {"worker_numbers": sorted({1, len(usable_cores())}), "turns": 1, "keep": None}),
        ("scale --workers 2 --workers 1 --edges 1e6", {"worker_numbers": [2, 1], "edges": [1e6]}),
        ("scale --graph a --graph b --keep kept", {"graph": [Path("a"), Path("b")], "keep": Path("kept")}),
        ("embed", {"encoders": ["gcn"], "layers": 2, "width": 128, "memory_gb": 4.0}),
        ("embed --encoder gat --width 64 --memory-gb 2", {"encoders": ["gat"], "width": 64, "memory_gb": 2.0}),
        ("neighbors --rows 5e5 --width 64", {"rows": [5e5], "embeddings": None, "width": 64}),
        ("neighbors --embeddings run/embeddings", {"embeddings": [Path("run/embeddings")], "width": 128}),
        ("changes", {"shares": [0.001], "turns": 3}),
        ("changes --share 0.1 --share 0.2", {"shares": [0.1, 0.2]}),
        ("train --steps 3 --no-ideas", {"steps": 3, "ideas": False, "turns": 2}),
        ("memory --graph large/graph --keep kept", {"graph": Path("large/graph"), "steps": 10, "keep": Path("kept")}),
        ("start", {"spinning": False, "turns": 3}),
        ("report runs/a runs/b", {"runs": [Path("runs/a"), Path("runs/b")], "turns": 5}),
    ],
)
def test_the_options_reach_their_bench(asked, words, options):
    name, *arguments = words.split()
    bench = asked(name, *arguments)
    assert {option: getattr(bench, option) for option in options} == options


@pytest.mark.parametrize("name", ["rings", "changes", "train", "memory"])
def test_the_config_reaches_its_bench(asked, name):
    assert asked(name, "--set", "train.batch_size=64").config.train.batch_size == 64
