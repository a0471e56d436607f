"""A campaign: stories of runs that faults fall on, drawn by a seed, until so many have fallen."""

import json
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from gscl_scale import seeding
from tests.chaos.faults import impossible
from tests.chaos.lanes import Local, Story

AT_MOST = 4  # faults that fall on one run


@dataclass(frozen=True)
class Fallen:
    """A fault that fell, and what became of it; `wrong` is empty where it was survived."""

    lane: str
    story: int
    kind: str
    about: str
    code: int
    sentence: str
    seconds: float
    wrong: str = ""


def campaign(lane: Local, number: int, seed: int, log: Path, stop: threading.Event) -> list[Fallen]:
    """Let faults fall on one pipeline; every one is told as it falls and kept in a file of JSON lines."""
    draw = seeding.generator(f"chaos {lane.name}", seed)
    fallen: list[Fallen] = []
    waiting: list[str] = []
    story, stories = None, 0
    while len(fallen) < number and not stop.is_set():
        if story is None:
            story, stories = lane.story(stories), stories + 1
            lane.current, lane.current_words = story.folder, story.words
            falls = int(draw.integers(2, AT_MOST + 1))
        if not waiting:
            waiting = [str(name) for name in draw.permutation(sorted(set(lane.kinds()) - set(impossible())))]
        kind = waiting.pop()
        one = _befall(lane, story, stories, kind, draw)
        if one is None:
            continue
        fallen.append(one)
        falls = falls - 1 if one.code else min(falls - 1, 1)  # of a finished run only what is there can be hit
        if one.wrong or falls == 0 or len(fallen) == number:
            wrong = one.wrong or _finished(lane, story)
            if wrong and not one.wrong:
                fallen[-1] = replace(one, wrong=f"after all: {wrong}")
            if not wrong:
                lane.clear(story)
            story = None
        _tell(fallen[-1], len(fallen), number, log)
    return fallen


def _finished(lane: Local, story: Story) -> str:
    try:
        return lane.finished(story)
    except AssertionError as error:  # it hangs
        return str(error)


def _befall(lane: Local, story: Story, number: int, kind: str, draw: np.random.Generator) -> Fallen | None:
    fault = lane.kinds()[kind](draw, lane.whole_s)
    began = time.monotonic()
    try:
        outcome = lane.befall(story, fault)
    except AssertionError as error:
        return Fallen(lane.name, number, kind, fault.about, -1, "", time.monotonic() - began, str(error))
    if outcome is None or not outcome[1]:
        return None
    ended = outcome[0]
    sentence = ended.sentences[0] if ended.sentences and ended.code else ""
    wrong = ended.wrong() or lane.false(story)
    return Fallen(lane.name, number, kind, fault.about, ended.code, sentence, round(ended.seconds, 2), wrong)


def _tell(one: Fallen, count: int, number: int, log: Path) -> None:
    state = f"WRONG: {one.wrong}" if one.wrong else one.sentence or ("went on" if one.code == 0 else "ended")
    print(f"{count}/{number} {one.lane}, {one.kind}: {one.about}: exit code {one.code}, {state[:300]}", flush=True)
    with log.open("a") as file:
        file.write(json.dumps(asdict(one)) + "\n")
