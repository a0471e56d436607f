"""Training processes that leave traces: their own id, and the anchors of every step that they take."""

import contextlib
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from gscl_scale.stages import train as training
from gscl_scale.train import loop
from gscl_scale.train.process_group import join_world


def traced_process(values: dict[str, Any], stop: threading.Event | None = None, meter=lambda figures: None) -> None:
    """`training.train_process` with traces in the run folder.

    While there is a file `pace` in it, each step takes so many seconds longer.
    """
    folder = Path(values["folder"])
    traces = folder / "traces"
    traces.mkdir(exist_ok=True)
    step = loop.training_step
    with join_world(1.0) as world:
        rank, size = world.rank, world.size
    (traces / f"process-{rank}").write_text(str(os.getpid()))

    def traced_step(model, optimizer, inputs, batches, config, number, *rest):
        micro_batches = list(batches)
        anchors = np.concatenate([batch.nodes[batch.anchors] for batch in micro_batches])
        np.save(traces / f"anchors-{number:03d}-{rank}-of-{size}.npy", anchors)
        with contextlib.suppress(FileNotFoundError):
            time.sleep(float((folder / "pace").read_text()))
        return step(model, optimizer, inputs, micro_batches, config, number, *rest)

    loop.training_step = traced_step
    try:
        training.train_process(values, stop, meter)
    finally:
        loop.training_step = step


def process(folder: Path, rank: int) -> int:
    """The id of the process that has a rank now."""
    return int((folder / "traces" / f"process-{rank}").read_text())


def order(folder: Path, size: int) -> bytes:
    """The anchors of all steps as so many processes have used them, one after the other."""
    steps = sorted({path.name.split("-")[1] for path in (folder / "traces").glob(f"anchors-*-of-{size}.npy")})
    parts = [
        np.load(folder / "traces" / f"anchors-{step}-{rank}-of-{size}.npy") for step in steps for rank in range(size)
    ]
    return np.concatenate(parts).astype(np.int64).tobytes()
