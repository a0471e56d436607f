"""How a training went: loss, loss of each ring, what the gate stops, speed."""

from collections.abc import Mapping, Sequence
from typing import Any

from gscl_scale.evaluate.label_summary import figure_name, protocol_of
from gscl_scale.report.html import Html, figures, notes, seconds, section, small
from gscl_scale.report.plots import lines_svg
from gscl_scale.report.run_data import RunData
from gscl_scale.text import counted, format_bytes

Steps = Sequence[Mapping[str, Any]]
Points = list[tuple[float, float | None]]

_VALIDATED = {
    "probe": ("accuracy", "of a quick probe."),
    "links": ("AUC", "on held-out edges."),
    "ranking": ("ranking accuracy", "of held-out nodes."),
}


def training(found: RunData) -> Html:
    """The curves of a training, and its speed in words."""
    steps = found.curve
    gated = step_curve(steps, "gated")
    gate = lines_svg({"gated": gated}, "gate", "step", "gated share", True) if any(share for _, share in gated) else ""
    loss = lines_svg({"loss": step_curve(steps, "loss")}, "loss", "step", "loss")
    validated = [(one["epoch"], one["accuracy"]) for one in found.events if one["event"] == "validation"]
    name, words = _VALIDATED[found.last("train", "selection").get("by", "probe")]
    if name == "accuracy":
        name = figure_name(protocol_of(found.metrics))
    drawn = figures(
        (loss, "Loss", "per training step."),
        (lines_svg(_rings(steps), "rings", "step", "loss of a ring"), "Loss of each ring", "against what is farther."),
        (gate, "Gate", "share of the terms that are ranked well enough, and so no longer pull."),
        (
            lines_svg({"anchors": _rates(steps)}, "rate", "step", "anchors per second", True),
            "Speed",
            "of each step after the first.",
        ),
        (lines_svg({name: validated}, "validation", "epoch", name), "Validation", words),
    )
    absent = "" if loss else small("No training step with a finite loss is in the log.")
    return section("How did it get there?", drawn, absent, notes(_sentences(found, bool(gate))))


def step_curve(steps: Steps, key: str) -> Points:
    """A figure of every step that has it."""
    return [(one["step"], one[key]) for one in steps if key in one]


def speed(steps: Steps) -> tuple[float, float | None]:
    """Seconds of all steps that were timed, and anchors per second of the steps after the first."""
    later = _later(steps)
    anchors = sum(one.get("anchors") or 0 for one in later)
    return _seconds_of(steps), anchors / _seconds_of(later) if anchors else None


def _later(steps: Steps) -> Steps:
    """The steps that were timed, without the first, which waits for everything to be opened; else that one."""
    timed = [one for one in steps if one.get("step_s")]
    return timed[1:] or timed


def _seconds_of(steps: Steps) -> float:
    return float(sum(one.get("step_s") or 0 for one in steps))


def _rings(steps: Steps) -> dict[str, Points]:
    levels = [(one["step"], one.get("per_level") or []) for one in steps]
    hops = max((len(losses) for _, losses in levels), default=0)
    rings = {
        f"ring {hop + 1}": [(step, losses[hop]) for step, losses in levels if len(losses) > hop] for hop in range(hops)
    }
    own = step_curve(steps, "hop_zero")
    return {"hop 0": own, **rings} if own else rings


def _rates(steps: Steps) -> Points:
    return [(one["step"], one["anchors"] / one["step_s"]) for one in _later(steps) if one.get("anchors")]


def _sentences(found: RunData, gated: bool) -> list[str]:
    steps = found.curve
    took, rate = speed(steps)
    if not took:
        return []
    words = f"{counted(len(steps), 'step', 'steps')} in {seconds(took)}"
    if rate is not None:
        later = _later(steps)
        waited = sum(one.get("data_wait_s") or 0 for one in later) / _seconds_of(later)
        after = "; after the first step" if len(steps) > 1 else ""
        words += f"{after}, {rate:,.0f} anchors per second, {100 * waited:.0f} % of the time waiting for data"
    sentences = [words]
    if not gated and any(one.get("per_level") for one in steps):
        sentences.append("the gate has stopped no term")
    if peak := max((one.get("peak_bytes") or 0 for one in steps), default=0):
        sentences.append(f"at most {format_bytes(peak)} of memory were resident, mapped files included")
    if epoch := found.last("embed", "done").get("epoch"):
        chosen = any(one["event"] == "validation" for one in found.events)
        sentences.append(f"the embeddings are of epoch {epoch}{', the best on validation' * chosen}")
    return sentences
