"""What the log of a run tells: the steps of its training, and its other events.

Lines that are cut off, or of another kind, tell nothing.
"""

import contextlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from gscl_scale.errors import FolderError
from gscl_scale.io.validate import Count, Number, lines_of, of_kind, parse_json


def _moment(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("expected a time with its zone")
    return text


_Seconds = Annotated[float, Field(ge=0, le=1e12)]


class _Step(TypedDict):
    """A training step; a loss may be infinite, or null where there was none."""

    event: Literal["step"]
    step: Count
    epoch: NotRequired[Count]
    loss: NotRequired[Number | None]
    hop_zero: NotRequired[Number | None]
    per_level: NotRequired[list[Number | None] | None]
    gated: NotRequired[Number | None]
    anchors: NotRequired[Count | None]
    negatives: NotRequired[Count | None]
    step_s: NotRequired[_Seconds | None]
    data_wait_s: NotRequired[_Seconds | None]
    peak_bytes: NotRequired[Count | None]


class _Event(TypedDict):
    time: Annotated[str, AfterValidator(_moment)]
    stage: str
    event: str


class _Sampled(_Event):
    engine: NotRequired[str | None]
    short: NotRequired[Number]


class _Started(_Event):
    processor: NotRequired[str]
    cores: NotRequired[Count]
    memory: NotRequired[Count]
    device: NotRequired[str]
    processes: NotRequired[Count]


class _Validated(_Event):
    epoch: Count
    accuracy: Number


class _Embedded(_Event):
    epoch: NotRequired[Count]


_KINDS: dict[tuple[str, str], Any] = {
    ("precompute", "done"): _Sampled,
    ("train", "started"): _Started,
    ("train", "validation"): _Validated,
    ("embed", "done"): _Embedded,
}


def read_curve(log: Path) -> list[dict[str, Any]]:
    """The training steps, each once: a step that a resumed run repeated counts as it was last."""
    steps: dict[int, dict[str, Any]] = {}
    for event in _lines(log):
        if not of_kind(_Step, event):
            steps[event["step"]] = event
    return [steps[step] for step in sorted(steps)]


def read_events(log: Path) -> list[dict[str, Any]]:
    """The events other than the training steps."""
    known = [event for event in _lines(log) if not of_kind(_Event, event)]
    return [
        event
        for event in known
        if event["event"] != "step" and not of_kind(_KINDS.get((event["stage"], event["event"]), _Event), event)
    ]


def _lines(log: Path) -> Iterator[dict[str, Any]]:
    for line in lines_of(log) if log.exists() else ():
        with contextlib.suppress(FolderError):  # a line cut off when the run was killed
            event = parse_json(line, str(log), "")
            if isinstance(event, dict):
                yield event
