"""`make chaos`: faults fall on whole pipelines; each is survived, or told in one sentence with nothing false left."""

import json
import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest

from gscl_scale.machine import processor_name, usable_cores
from tests.chaos.attempts import Ended
from tests.chaos.campaign import Fallen, campaign
from tests.chaos.cluster import OnRay
from tests.chaos.faults import harm, impossible
from tests.chaos.lanes import Local
from tests.chaos.nights import Nights
from tests.chaos.oracle import differences, false_files, follow
from tests.chaos.page import replaced, summary
from tests.chaos.store import OnStore

PAGE = Path(__file__).parent.parent.parent / "docs/figures/faults.md"
LANES = {Local: 0.55, OnRay: 0.12, OnStore: 0.15, Nights: 0.18}  # of the faults; those beside each other take as long
SIDE_BY_SIDE = ((Local, Nights), (OnRay, OnStore))


@pytest.mark.chaos
@pytest.mark.timeout(0)
def test_every_fault_is_survived_or_told(tmp_path, capsys):
    number, seed = int(os.environ.get("CHAOS_FAULTS", "220")), int(os.environ.get("CHAOS_SEED", "1"))
    log = Path(os.environ.get("CHAOS_LOG", tmp_path / "log.jsonl"))
    began, stop = time.monotonic(), threading.Event()

    def one_after_the_other(lanes) -> list[Fallen]:
        fallen = []
        for lane_class in lanes:
            lane = lane_class(tmp_path / lane_class.__name__)
            try:
                fallen += campaign(lane, max(2, round(number * LANES[lane_class])), seed, log, stop)
            finally:
                lane.close()
        return fallen

    with capsys.disabled():
        print(f"\n{number} faults, seed {seed}; every one is kept in {log}", flush=True)
        for kind, missing in impossible().items():
            print(f"{kind} is left out: it needs {missing}")
        with ThreadPoolExecutor(len(SIDE_BY_SIDE)) as pool:
            running = [pool.submit(one_after_the_other, lanes) for lanes in SIDE_BY_SIDE]
            try:
                fallen = [one for lanes in running for one in lanes.result()]
            finally:
                stop.set()  # after an interrupt, or where a lane is broken
        machine = f"{len(usable_cores())} cores of {processor_name()}"
        told = summary(fallen, seed, (time.monotonic() - began) / 60, machine)
        print(told)
    if os.environ.get("CHAOS_PAGE"):
        PAGE.write_text(replaced(PAGE.read_text(), told))
    assert not [json.dumps(asdict(one)) for one in fallen if one.wrong]


# --- the judge itself ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    lane = Local(tmp_path_factory.mktemp("judge") / "lane")
    return lane, lane.reference


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("graph/indices.arrow", "flipped"),
        ("samples/round-000/part-00001.arrow", "cut off"),
        ("samples/round-000/part-00001.arrow", "gone"),
        ("embeddings/embeddings.parquet", "gone"),
        ("log.jsonl", "cut off"),
    ],
)
@pytest.mark.slow
def test_the_judge_sees_damage(made, tmp_path, name, how):
    _, reference = made
    shutil.copytree(reference, tmp_path / "run")
    assert differences(tmp_path / "run", reference, exact=True) == ""
    harm(tmp_path / "run" / name, how, 0.5)
    try:
        assert differences(tmp_path / "run", reference, exact=True)
    except FileNotFoundError:
        assert how == "gone"
    if how == "flipped":
        assert false_files(tmp_path / "run", reference, set())
        assert not false_files(tmp_path / "run", reference, {tmp_path / "run" / name})


def test_an_end_with_a_traceback_or_without_a_sentence_is_wrong():
    assert not Ended(2, "graph digits\ngscl-scale: train.epochs: expected 1, got 0; raise it\n", 1.0).wrong()
    assert not Ended(-9, "half a li", 1.0).wrong()
    assert Ended(1, "Traceback (most recent call last):\n", 1.0).wrong()
    assert Ended(1, "something\n", 1.0).wrong()
    assert Ended(1, "gscl-scale: one\ngscl-scale: two\n", 1.0).wrong()


@pytest.mark.parametrize(
    ("sentence", "gone", "verbs"),
    [
        ("gscl-scale: {run}/samples/manifest.json is damaged: x; delete its folder and run again", "samples", []),
        ("gscl-scale: {run}/graph/ids.arrow: other bytes; delete {run}/graph and ingest the graph again", "graph", []),
        ("gscl-scale: {run}/samples/a.arrow: got other content; run gscl-scale precompute again", "", ["precompute"]),
    ],
)
def test_the_advice_of_a_sentence_is_followed(tmp_path, sentence, gone, verbs):
    for name in ("samples", "graph"):
        (tmp_path / name).mkdir()
    assert follow(sentence.format(run=tmp_path), tmp_path) == verbs
    assert {path.name for path in tmp_path.iterdir()} == {"samples", "graph"} - {gone}
