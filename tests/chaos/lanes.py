"""The pipeline that faults fall on, on this machine, and the kinds of faults that are the same everywhere."""

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.chaos import faults
from tests.chaos.attempts import Attempt, Ended, attempt, finish
from tests.chaos.faults import Fault, Kind
from tests.chaos.oracle import differences, false_files, follow
from tests.retrain.town import Town

CONFIG = {
    "rings": {"hops": 2, "per_ring": 8, "width": 32, "beyond": 16, "rounds": 2, "part_anchors": 100},
    "model": {"layers": 1, "width": 32, "projection": 0},
    "train": {"epochs": 8, "batch_size": 200, "negatives": 100, "checkpoint_steps": 5},
    "evaluate": {"initialisations": 2, "probe_epochs": 30, "random_splits": 1, "probe_weight_decay": [0.0]},
    "runtime": {"device": "cpu", "workers": 2},
}
RIGHT_AGAIN = 5  # attempts without a fault that may be needed, each after what the sentence before it advised


@dataclass
class Story:
    """A run that faults fall on until it is finished without one."""

    folder: Path
    words: list[object]
    cwd: Path
    env: dict[str, str] = field(default_factory=dict)
    damaged: set[Path] = field(default_factory=set)


class Local:
    """One machine, a local folder."""

    name = "this machine"
    exact = True

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.scratch.mkdir(parents=True)
        Town(scratch / "town")
        tables = {"source": "tables", "edges": "town/edges.parquet", "nodes": "town/nodes.parquet"}
        (scratch / "config.yaml").write_text(yaml.safe_dump({"graph": tables, **CONFIG}))
        began = time.monotonic()
        ended = finish(["run", "--config", "config.yaml", "--run", "reference"], scratch)
        assert ended.code == 0, ended.told
        self.whole_s = time.monotonic() - began
        self.reference = scratch / "reference"

    def story(self, number: int) -> Story:
        """A run that has not begun."""
        folder = self.scratch / f"run-{number}"
        return Story(folder, ["run", "--config", "config.yaml", "--run", folder, *self.options()], self.scratch)

    def options(self) -> list[object]:
        """Further words of the command."""
        return []

    def kinds(self) -> dict[str, Kind]:
        """What can befall it."""
        return {
            **PROCESS,
            **DISK,
            **DAMAGE,
            "disk full": self._full,
            "read-only folder": self._read_only,
            "two at the same time": self._twice,
        }

    def befall(self, story: Story, fault: Fault) -> tuple[Ended, bool] | None:
        """An attempt under a fault, and whether the fault fell; None if there was nothing for it."""
        before = _content(story.folder)
        if not fault.before(story.folder):
            return None
        story.damaged |= {path for path, state in before.items() if not path.exists() or _state(path) != state}
        with attempt(story.words, story.cwd, fault.wrapper, {**story.env, **fault.env}) as (running, end):
            fell = fault.meanwhile(running)
            ended = end()
        if ended.code == 2 and story.damaged:  # a reader of the sentence would do what it says
            follow(ended.sentences[0], story.folder)
        return ended, fell

    def false(self, story: Story) -> str:
        """What is there and is not right, damage that was done apart."""
        return false_files(story.folder, self.reference, story.damaged)

    def finished(self, story: Story) -> str:
        """Finish it without faults, as its own sentences advise; what then is not as in the undisturbed run."""
        ended = finish(story.words, story.cwd, story.env)
        for _ in range(RIGHT_AGAIN):
            if ended.code == 0 or ended.wrong():
                break
            for verb in follow(ended.sentences[0], story.folder):
                finish([verb, *story.words[1:]], story.cwd, story.env)
            ended = finish(story.words, story.cwd, story.env)
        if ended.code or ended.wrong():
            return f"it does not get right again: {ended.wrong() or ended.told[-1000:]}"
        verified = finish(["precompute", *story.words[1:]], story.cwd, story.env)
        return verified.wrong() or differences(
            story.folder, self.reference, self.exact, logged=story.folder / "log.jsonl" not in story.damaged
        )

    def clear(self, story: Story) -> None:
        """Take away what is no longer needed."""
        shutil.rmtree(story.folder, ignore_errors=True)

    def close(self) -> None:
        """Stop what was started."""

    def _full(self, draw: faults.Draw, whole: float) -> Fault:
        place, size = self._place(draw), int(draw.integers(8, 200))
        script = f"mount -t tmpfs -o size={size}k none {place}"
        return faults.mounted(script, f"{size} KiB for {place.name}", place)

    def _read_only(self, draw: faults.Draw, whole: float) -> Fault:
        place = self._place(draw)
        script = f"mount --bind {place} {place} && mount -o remount,bind,ro {place}"
        return faults.mounted(script, f"{place.name} is read-only", place)

    def _place(self, draw: faults.Draw) -> Path:
        return self.current / str(draw.choice(["samples", "checkpoints", "embeddings"]))

    def _twice(self, draw: faults.Draw, whole: float) -> Fault:
        after = float(draw.uniform(0, whole / 2))

        def repeat(running: Attempt) -> None:
            ended = finish(self.current_words, self.scratch)
            assert not ended.wrong(), ended.wrong()

        return faults.during(f"the same command again after {after:.1f} s", after, repeat)


PROCESS: dict[str, Kind] = {
    "driver killed": faults.sent(faults.signal.SIGKILL),
    "driver told to stop": faults.sent(faults.signal.SIGTERM),
    "driver interrupted": faults.sent(faults.signal.SIGINT),
    "all processes stopped for a while": faults.paused,
    "clock jumps": faults.jumping_clock,
    "few open files": faults.limited("n", "open files:", 24, 90),
    "little memory": faults.limited("v", "KiB of addresses:", 1_200_000, 3_500_000),
}
DISK: dict[str, Kind] = {
    "file-size limit": faults.limited("f", "KiB in a file:", 1, 60),
    "flush fails": faults.system_call("fsync", "EIO", (1, 25)),
    "rename fails": faults.system_call("rename,renameat,renameat2", "EIO", (1, 25)),
    "writes fail from then on": faults.system_call("write,pwrite64", "ENOSPC", (200, 3000), lasting=True),
    "slow disk": faults.slow_disk,
}
DAMAGE: dict[str, Kind] = {
    f"{what} {how}": faults.damaged(pattern, how)
    for what, pattern in {
        "part of samples": "samples/*/part-*.arrow",
        "checkpoint": "checkpoints/*.pt",
        "manifest": "*/manifest.json",
        "file of the graph": "graph/*.arrow",
        "embeddings": "embeddings/*.parquet",
        "record or figures": "*.json",
        "log": "log.jsonl",
    }.items()
    for how in ("flipped", "cut off", "zeroed", "gone")
} | {"halves of other attempts": faults.litter}


def _content(folder: Path) -> dict[Path, tuple[int, int]]:
    return {path: _state(path) for path in folder.rglob("*") if path.is_file()} if folder.exists() else {}


def _state(path: Path) -> tuple[int, int]:
    about = path.stat()
    return about.st_size, about.st_mtime_ns
