"""What of a run was made with other settings or from other input files, and its removal."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from gscl_scale.config.config import Config
from gscl_scale.run.folder import Run
from gscl_scale.run.inputs import changed_inputs, input_state
from gscl_scale.run.record import other_work, read_record, repeat_config

_MADE_FROM = {  # what is made from a result, and itself; the last is removed first
    "graph": ("graph", "consistency.svg", "compare.json", "compare.md", "compare.png", "compare", "samples"),
    "samples": ("samples",),
    "training": (
        "checkpoints", "tensorboard", "rotation.npy", "embeddings", "map", "metrics.json", "report.html",
    ),
}  # fmt: skip
_ORDER = tuple(_MADE_FROM)


def other_results(config: Config, folder: Path) -> list[Path]:
    """The files and folders of a run that were made with other settings or from other inputs, the first made first."""
    return [path for run, one in _parts(config, folder) for path in _others(one, run)]


def remove_results(found: Sequence[Path]) -> None:
    """Remove them, the last made first, so that none is left without what it was made from."""
    for path in reversed(found):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _parts(config: Config, folder: Path) -> Iterator[tuple[Run, Config]]:
    """The run, and each of its repeats."""
    whole = Run.at(folder)
    yield whole, config
    for number in range(config.train.repeats if config.train.repeats > 1 else 0):
        one = repeat_config(config, number)
        yield whole.repeat(one.train.seed), one


def _others(config: Config, run: Run) -> list[Path]:
    if not (run.folder / "run.json").exists():
        return []
    record = read_record(run.folder)
    found = other_work(config, run, record)
    result = found.result if found else ""
    if run.graph.exists() and changed_inputs(config, record.get("inputs", {}), input_state(config)):
        result = "graph"
    if result not in _ORDER:
        return []
    names = [name for one in _ORDER[_ORDER.index(result) :] for name in _MADE_FROM[one]]
    repeats = sorted(run.folder.glob("seed-*")) if result == "graph" else []
    paths = [run.folder / name for name in dict.fromkeys(names)]
    return [path for path in [*paths, *repeats] if path.exists()]
