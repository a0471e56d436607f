"""How a training went: loss, loss of each ring, what the gate stops, speed."""

from collections.abc import Sequence
from typing import Any

from gscl_scale.report.html import figures, listing, seconds, section
from gscl_scale.report.plots import lines_svg
from gscl_scale.report.run_data import Findings
from gscl_scale.text import in_words

Steps = Sequence[dict[str, Any]]


def course(found: Findings) -> str:
    """The curves of a training, and its speed in words."""
    steps = found.curve
    loss = lines_svg({"loss": along(steps, "loss")}, "loss", "step", "loss")
    validated = [(one["epoch"], one["accuracy"]) for one in found.events if one["event"] == "validation"]
    drawn = figures(
        (loss, "Loss", "per training step."),
        (lines_svg(_rings(steps), "rings", "step", "loss of a ring"), "Loss of each ring", "against what is farther."),
        (_gate(steps), "Gate", "share of the terms that are ranked well enough, and so no longer pull."),
        (lines_svg({"anchors": _rates(steps)}, "rate", "step", "anchors per second", True), "Speed", "of each step."),
        (lines_svg({"accuracy": validated}, "validation", "epoch", "accuracy"), "Validation", "of a quick probe."),
    )
    absent = "" if loss else '<p class="small">No training step with a finite loss is in the log.</p>'
    return section("How did it get there?", drawn, absent, listing(_words(found)))


def along(steps: Steps, key: str) -> list[tuple[float, float | None]]:
    """A figure of every step that has it."""
    return [(one["step"], one[key]) for one in steps if key in one]


def _rings(steps: Steps) -> dict[str, list[tuple[float, float | None]]]:
    levels = [(one["step"], one.get("per_level") or []) for one in steps]
    hops = max((len(losses) for _, losses in levels), default=0)
    rings = {
        f"ring {hop + 1}": [(step, losses[hop]) for step, losses in levels if len(losses) > hop] for hop in range(hops)
    }
    own = along(steps, "hop_zero")
    return {"hop 0": own, **rings} if own else rings


def _gate(steps: Steps) -> str:
    """Only where the gate has ever stopped something."""
    shares = along(steps, "gated")
    return lines_svg({"gated": shares}, "gate", "step", "gated share", True) if any(y for _, y in shares) else ""


def _rates(steps: Steps) -> list[tuple[float, float | None]]:
    """Without the first step, which waits for everything to be opened."""
    timed = [one for one in steps if one.get("anchors") and one.get("step_s")]
    return [(one["step"], one["anchors"] / one["step_s"]) for one in timed[1:] or timed]


def _words(found: Findings) -> list[str]:
    steps = found.curve
    timed = [one for one in steps if one.get("step_s")]
    if not timed:
        return []
    took = sum(one["step_s"] for one in timed)
    words = f"{len(steps):,} steps in {seconds(took)}"
    if anchors := sum(one.get("anchors") or 0 for one in timed):
        waited = sum(one.get("data_wait_s") or 0 for one in timed)
        words += f", {anchors / took:,.0f} anchors per second, {100 * waited / took:.0f} % of the time waiting for data"
    sentences = [words]
    if any(one["per_level"] for one in steps if "per_level" in one) and not _gate(steps):
        sentences.append("the gate has stopped no term")
    if peak := max((one.get("peak_bytes") or 0 for one in steps), default=0):
        sentences.append(f"at most {in_words(peak)} of memory were resident, mapped files included")
    if epoch := found.last("embed", "done").get("epoch"):
        chosen = any(one["event"] == "validation" for one in found.events)
        sentences.append(f"the embeddings are of epoch {epoch}{', the best on validation' if chosen else ''}")
    return sentences
