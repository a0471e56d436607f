"""What a console in another process prints appears at the terminal of this one."""

import contextlib
import json

import pytest

from gscl_scale.runtime.console import Console
from gscl_scale.runtime.relay import RelayConsole, relayed
from tests.forked import begin_program

TELLING = """
import sys
from pathlib import Path
from gscl_scale.runtime.relay import RelayConsole

folder = Path(sys.argv[1])
console = RelayConsole(folder / "log.jsonl", folder / "relay")
console.say("a sentence [with brackets]")
with console.with_log(folder / "other.jsonl").progress("evaluate", 4, "figures", 1) as advance:
    advance(1, "half")
    advance(2)
console.event("evaluate", "done", rows=3)
console.say("the last")
"""


def test_sentences_and_progress_of_another_process_are_shown_and_events_are_logged(tmp_path, capsys):
    with relayed(tmp_path / "relay", Console()):
        process = begin_program(TELLING, tmp_path)
        process.join()
    printed = capsys.readouterr().err.splitlines()
    assert printed[0] == "a sentence [with brackets]"
    assert printed[-1] == "the last"
    assert json.loads((tmp_path / "log.jsonl").read_text())["rows"] == 3
    assert not (tmp_path / "relay").exists()


def test_a_progress_is_shown_with_what_was_done(tmp_path, monkeypatch):
    shown, added = [], []

    class Seen(Console):
        @contextlib.contextmanager
        def progress(self, *begin):
            shown.append(list(begin))
            yield lambda steps, note: added.append(steps)

    monkeypatch.setattr("gscl_scale.runtime.relay._TELL_EVERY_S", 0.0)
    with relayed(tmp_path / "relay", Seen(quiet=True)):
        console = RelayConsole(None, tmp_path / "relay")
        with console.progress("embed", 10, "rows", 2) as advance:
            advance(3, "layer")
        with pytest.raises(KeyboardInterrupt), console.progress("map", 5):
            raise KeyboardInterrupt
    assert shown == [["embed", 10, "rows", 2], ["map", 5, "", 0]]
    assert sum(added) == 3


def test_the_steps_of_many_calls_add_up(tmp_path):
    console = RelayConsole(None, tmp_path / "relay")
    with console.progress("embed", 100) as advance:
        for _ in range(100):
            advance(1)
    told = [json.loads(line) for line in (tmp_path / "relay").read_text().splitlines()]
    assert sum(message["advance"][0] for message in told if "advance" in message) == 100
