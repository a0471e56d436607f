"""Stages after the training on a Ray cluster: blocks of nodes as tasks, and a whole stage as one task."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch

from gscl_scale.config.config import Config
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.relay import RelayConsole, relayed
from gscl_scale.runtime.runner import Runner, start_runner

Result = TypeVar("Result")
Stage = Callable[[Config, Run, Console], Result]


@dataclass(frozen=True)
class _Call:
    """A stage of a run as plain values, for a process on another machine.

    place   the working folder, from which paths of the config lead
    relay   what it prints goes there
    """

    stage: Stage[object]
    config: dict[str, object]
    run: Run
    place: Path
    relay: Path


@contextlib.contextmanager
def embedding_runner(config: Config, folder: Path) -> Iterator[Runner | None]:
    """The runner of tasks on a cluster whose machines share the folder; None where this process does the work."""
    if config.runtime.engine == "local":
        yield None
        return
    with start_runner(config.runtime.for_embedding()) as runner:
        runner.check_shared(folder.absolute())
        yield runner


def run_stage(runner: Runner, stage: Stage[Result], config: Config, run: Run, console: Console) -> Result:
    """Run a stage as one task; its sentences and its progress appear here."""
    folder, graph, samples = (place.absolute() for place in (run.folder, run.graph, run.samples))
    call = _Call(stage, config.dump(), Run(folder, graph, samples), Path.cwd(), folder / ".relay.jsonl")
    with relayed(call.relay, console):
        (result,) = runner.run(_run_here, [call])
    return result  # type: ignore[return-value]  # the task runs this stage


def _run_here(call: _Call) -> object:
    """Run a stage in this process, on the device that it has."""
    config = Config.parse(call.config)
    torch.set_num_threads(max(1, int(config.runtime.worker_cpus)))
    device = "cuda" if config.runtime.worker_gpus else "cpu"
    here = config.runtime.model_copy(update={"engine": "local", "device": device})
    place = contextlib.chdir(call.place) if call.place.exists() else contextlib.nullcontext()
    with place:
        console = RelayConsole(call.run.log, call.relay)
        return call.stage(config.model_copy(update={"runtime": here}), call.run, console)
