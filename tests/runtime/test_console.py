import json
import sys
import types

from gscl_scale.runtime import console
from gscl_scale.runtime.console import Console


def test_events_are_one_object_a_line_with_time_stage_and_event(tmp_path):
    log = tmp_path / "sub" / "log.jsonl"
    Console(log, quiet=True).event("train", "step", step=1, loss=0.5)
    Console(log, quiet=True).event("train", "done")
    first, last = (json.loads(line) for line in log.read_text().splitlines())
    assert (first["stage"], first["event"], first["step"], first["loss"]) == ("train", "step", 1, 0.5)
    assert last.keys() == {"time", "run", "stage", "event"}


def test_progress_is_plain_lines_where_there_is_no_terminal_and_silent_for_short_work(capsys, monkeypatch):
    with Console().progress("rings", 10, unit="parts") as advance:
        advance(10)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(console, "_QUIET_S", -1.0)
    with Console().progress("rings", 10, unit="parts") as advance:
        advance(4, note="loss 1.0")
    assert capsys.readouterr().err.startswith("rings: 4 of 10 parts, about ")


def test_progress_in_a_notebook_is_one_line_that_changes(monkeypatch):
    class Shown:
        def update(self, data, raw):
            lines[-1].append(data["text/plain"])

    def display(data, raw, display_id):
        lines.append([data["text/plain"]])
        return Shown()

    lines = []
    module = types.ModuleType("IPython.display")
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython.display", module)  # IPython is there only where there is a notebook
    monkeypatch.setattr(console, "_QUIET_S", -1.0)
    ours, quiet = Console(), Console(quiet=True)
    ours._out.is_jupyter = quiet._out.is_jupyter = True
    for one in (ours, quiet):
        with one.progress("rings", 10, unit="parts") as advance:
            advance(4)
            advance(6)
    ((first, last),) = lines
    assert first.startswith("rings: 4 of 10 parts, about ")
    assert last == "rings: 10 of 10 parts"


def test_text_with_brackets_is_shown_as_it_is(capsys):
    Console().say("[red]not markup[/red]")
    assert capsys.readouterr().err == "[red]not markup[/red]\n"
