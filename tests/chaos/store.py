"""Pipelines whose run is on an object store that has trouble."""

import contextlib
import json
import os
import shutil
import sys
from pathlib import Path
from unittest import mock

from gscl_scale.errors import FolderError
from gscl_scale.storage.mirror import Mirror
from gscl_scale.storage.urls import folder_of, store_at
from tests.chaos import faults
from tests.chaos.attempts import Attempt, finish
from tests.chaos.faults import Draw, Fault, Kind
from tests.chaos.lanes import PROCESS, Local, Story
from tests.chaos.oracle import differences
from tests.s3 import BUCKET, s3_server


class OnStore(Local):
    """A run on S3: this machine works on a copy, and another machine may want to as well."""

    name = "an object store"

    def __init__(self, scratch: Path) -> None:
        super().__init__(scratch)
        self._started = contextlib.ExitStack()
        self._mood = scratch / "mood.json"
        self._started.enter_context(s3_server([sys.executable, "-m", "tests.chaos.crooked"], str(self._mood)))

    def close(self) -> None:
        """Stop the server."""
        self._started.close()

    def story(self, number: int) -> Story:
        """A run that has not begun."""
        where = f"s3://{BUCKET}/run-{number}"
        env = {"GSCL_SCALE_CACHE": str(self.scratch / f"machine-{number}")}
        with mock.patch.dict(os.environ, env):
            folder = folder_of(where)
        return Story(folder, ["run", "--config", "config.yaml", "--run", where], self.scratch, env)

    def kinds(self) -> dict[str, Kind]:
        """What can befall it."""
        drivers = ("driver killed", "driver told to stop", "all processes stopped for a while", "clock jumps")
        return {
            **{name: PROCESS[name] for name in drivers},
            "store answers with errors": self._mooded("error"),
            "store throttles": self._mooded("throttle"),
            "store breaks off answers": self._mooded("cut"),
            "store is slow": self._mooded("slow"),
            "copy on this machine is lost": faults.lost_cache,
            "another machine at the same time": self._elsewhere,
        }

    def finished(self, story: Story) -> str:
        """Finish it, and compare what then is in the store."""
        ended = finish(story.words, story.cwd, story.env)
        if ended.code or ended.wrong():
            return f"it does not get right again: {ended.told[-1000:]}"
        fresh = self.scratch / "fresh"
        try:
            Mirror(store_at(str(story.words[4])), fresh).pull()
            return differences(fresh, self.reference, exact=True)
        except FolderError as error:
            return f"the store does not hold it: {error}"
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def clear(self, story: Story) -> None:
        """Take away the copies."""
        shutil.rmtree(story.folder.parent, ignore_errors=True)

    def _mooded(self, answer: str) -> Kind:
        def kind(draw: Draw, whole: float) -> Fault:
            share, seconds = round(float(draw.uniform(0.05, 0.6)), 2), round(float(draw.uniform(0.2, 1.0)), 1)

            def before(folder: Path) -> bool:
                self._mood.write_text(json.dumps({"answer": answer, "share": share, "seconds": seconds}))
                return True

            def meanwhile(running: Attempt) -> bool:
                running.wait(faults.LIMIT_S)
                self._mood.unlink()
                return True

            return Fault(f"{answer}, of {100 * share:.0f} % of the requests", before=before, meanwhile=meanwhile)

        return kind

    def _elsewhere(self, draw: Draw, whole: float) -> Fault:
        after = float(draw.uniform(0, whole / 2))

        def run(running: Attempt) -> None:
            other = {"GSCL_SCALE_CACHE": str(self.scratch / "other")}
            ended = finish(["run", "--config", "config.yaml", "--run", self.current_words[4]], self.scratch, other)
            shutil.rmtree(self.scratch / "other", ignore_errors=True)
            assert not ended.wrong(), ended.wrong()

        return faults.during(f"after {after:.1f} s", after, run)
