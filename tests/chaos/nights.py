"""Nights of retraining: whatever befalls one, the ledger names a whole version, and the right one in the end."""

import hashlib
import shutil
import time
from pathlib import Path

import yaml

from gscl_scale.registry.versions import Registry
from tests.chaos.attempts import finish
from tests.chaos.faults import Kind
from tests.chaos.lanes import DISK, PROCESS, Local, Story
from tests.retrain.town import Town


class Nights(Local):
    """The second night of a registry in a folder, when the graph has changed."""

    name = "a night of retraining"

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        scratch.mkdir(parents=True)
        town = Town(scratch / "town")
        (scratch / "config.yaml").write_text(
            yaml.safe_dump(town.config(retrain={"lease_s": 1.0, "wait_s": 30.0}).dump())
        )
        self._before = scratch / "before"
        assert finish(self._words(self._before), scratch).code == 0
        town.grow()
        self.reference = scratch / "reference"
        shutil.copytree(self._before, self.reference)
        began = time.monotonic()
        assert finish(self._words(self.reference), scratch).code == 0
        self.whole_s = time.monotonic() - began
        registry = Registry(self.reference)
        self._expected = registry.version(registry.ledger.newest().current).files

    @staticmethod
    def _words(registry: Path) -> list[object]:
        return ["retrain", "--config", "config.yaml", "--registry", registry]

    def story(self, number: int) -> Story:
        """The registry after its first night."""
        folder = self.scratch / f"registry-{number}"
        shutil.copytree(self._before, folder)
        return Story(folder, self._words(folder), self.scratch)

    def kinds(self) -> dict[str, Kind]:
        """What can befall it."""
        process = {name: kind for name, kind in PROCESS.items() if name != "little memory"}
        disk = {name: kind for name, kind in DISK.items() if name != "writes fail from then on"}
        return {**process, **disk, "two at the same time": self._twice}

    def false(self, story: Story) -> str:
        """The ledger names a version whose embeddings are those of its index."""
        registry = Registry(story.folder)
        version = registry.version(registry.ledger.newest().current)
        content = (story.folder / "versions" / version.name / "embeddings/embeddings.parquet").read_bytes()
        is_whole = hashlib.sha256(content).hexdigest() == version.files["embeddings/embeddings.parquet"]
        return "" if is_whole else f"{version.name} is not whole"

    def finished(self, story: Story) -> str:
        """Have the night once more, and compare the version that then is current."""
        ended = finish(story.words, story.cwd)
        if ended.code or ended.wrong():
            return f"it does not get right again: {ended.told[-1000:]}"
        registry = Registry(story.folder)
        files = registry.version(registry.ledger.newest().current).files
        other = sorted(name for name in files | self._expected if files.get(name) != self._expected.get(name))
        return f"{other} are others than after an undisturbed night" if other else self.false(story)
