"""The events of log.jsonl: the training steps, and all others. Damaged lines are skipped."""

import contextlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from gscl_scale.errors import FolderError
from gscl_scale.io.validate import Count, Number, lines_of, parse_json, schema_error


def _check_zone(text: str) -> str:
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
    time: Annotated[str, AfterValidator(_check_zone)]
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
    """The training steps; of a step that a resumed run repeated, the last one."""
    steps = {event["step"]: event for event in _events(log) if not schema_error(_Step, event)}
    return [steps[step] for step in sorted(steps)]


def read_events(log: Path) -> list[dict[str, Any]]:
    """The events other than the training steps."""
    others = [event for event in _events(log) if not schema_error(_Event, event) and event["event"] != "step"]
    return [event for event in others if not schema_error(_KINDS.get((event["stage"], event["event"]), _Event), event)]


def _events(log: Path) -> Iterator[Any]:
    for line in lines_of(log) if log.exists() else ():
        with contextlib.suppress(FolderError):  # a line cut off when the run was killed
            yield parse_json(line, str(log), "")
