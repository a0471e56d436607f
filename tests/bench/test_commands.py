"""What the commands ask of the benches."""

from pathlib import Path

import pytest

from gscl_scale.bench.embed import Encoders
from gscl_scale.bench.harness import taken_cores
from gscl_scale.bench.tools import Depths
from gscl_scale.errors import UserError
from gscl_scale.machine import usable_cores
from tests.bench.conftest import flags_of

FLAGS = {
    "rings": "--config --set --hops --peer-hops --cores --seconds --turns --only --out",
    "changes": "--config --set --share --turns --out",
    "scale": "--edges --graph --workers --turns --out --keep",
    "train": "--config --set --steps --ideas --no-ideas --turns --out",
    "embed": "--edges --graph --encoder --layers --width --memory-gb --turns --out --keep",
    "memory": "--config --set --graph --steps --out --keep",
    "neighbors": "--rows --embeddings --width --out --keep",
    "report": "--turns --out",
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
    ],
)
def test_the_page_names_the_options_that_were_given_but_not_the_folders_of_results(asked, words):
    name, *arguments = words.replace("'", "").replace("of two words", "of_two_words").split()
    bench = asked(name, *(word.replace("of_two_words", "of two words") for word in arguments), "--out", "there")[0]
    assert bench.command == f"gscl-scale bench {words}"
    assert (bench.name, bench.out) == (name, Path("there"))


def test_rings_measures_the_depth_of_the_config_by_default(asked):
    bench, config, depths, sections = asked("rings", "--set", "rings.hops=3")
    assert (config.rings.hops, depths, bench.turns) == (3, Depths([3], [3], 5.0), 3)
    assert (list(sections), bench.cores, bench.out) == (["tools", "large-balls"], usable_cores(), Path("bench-results"))


def test_rings_measures_other_depths_and_one_section_on_demand(asked):
    call = "--hops", "4", "--hops", "3", "--peer-hops", "2", "--cores", "1", "--turns", "2", "--only", "large-balls"
    bench, _, depths, sections = asked("rings", *call)
    assert (depths, list(sections)) == (Depths([4, 3], [2], 5.0), ["large-balls"])
    assert (len(bench.cores), bench.turns) == (1, 2)


def test_rings_refuses_an_unknown_section(asked):
    with pytest.raises(UserError, match="--only hubs: expected tools or large-balls; leave it out to measure both"):
        asked("rings", "--only", "hubs")


def test_more_cores_than_there_are_are_refused():
    assert taken_cores(1) == taken_cores(0)[:1]
    with pytest.raises(UserError, match="--cores 4096 asks for more than the"):
        taken_cores(4096)


@pytest.mark.parametrize(
    ("words", "drawn", "folders"),
    [
        ("scale --workers 1", [1_000_000, 3_000_000, 10_000_000], []),
        ("scale --graph large/graph", [], [Path("large/graph")]),
        ("scale --graph large/graph --edges 1e6 --edges 2e6", [1_000_000, 2_000_000], [Path("large/graph")]),
        ("embed", [1_000_000, 10_000_000], []),
        ("neighbors", [100_000, 1_000_000], []),
        ("neighbors --embeddings run/embeddings", [], [Path("run/embeddings")]),
    ],
)
def test_folders_that_exist_are_measured_in_place_of_the_drawn_inputs(asked, words, drawn, folders):
    bench, sizes, places, *_ = asked(*words.split(), "--keep", "kept")
    assert (sizes, places, bench.keep) == (drawn, folders, Path("kept"))


def test_other_options_reach_their_bench(asked):
    assert asked("scale", "--workers", "2", "--workers", "1")[3] == [2, 1]
    assert asked("embed", "--encoder", "gat", "--width", "64")[3] == Encoders(["gat"], 2, 64, 4.0)
    assert asked("neighbors", "--width", "64")[3] == 64
    assert asked("changes")[2] == [0.001]
    assert asked("train", "--steps", "3", "--no-ideas")[2:] == (3, False)
    bench, config, *rest = asked("memory", "--set", "train.batch_size=64", "--graph", "large/graph", "--keep", "kept")
    assert (config.train.batch_size, rest, bench.keep) == (64, [10, Path("large/graph")], Path("kept"))
    assert asked("report", "runs/a", "runs/b")[1] == [Path("runs/a"), Path("runs/b")]
