import json
import sys
import types
from io import FileIO
from pathlib import Path
from types import SimpleNamespace

from gscl_scale.runtime import console
from gscl_scale.runtime.console import Console


def test_events_are_one_object_a_line_with_time_stage_and_event(tmp_path):
    log = tmp_path / "sub" / "log.jsonl"
    Console(log, quiet=True).event("train", "step", step=1, loss=0.5)
    Console(log, quiet=True).event("train", "done")
    first, last = (json.loads(line) for line in log.read_text().splitlines())
    assert (first["stage"], first["event"], first["step"], first["loss"]) == ("train", "step", 1, 0.5)
    assert last.keys() == {"time", "run", "stage", "event"}


def test_a_log_that_is_kept_open_has_each_event_at_once_and_none_is_left_behind(tmp_path, monkeypatch):
    log, opened, real = tmp_path / "log.jsonl", [], Path.open
    monkeypatch.setattr(Path, "open", lambda path, *rest, **named: opened.append(path) or real(path, *rest, **named))
    console = Console(log, quiet=True)
    with console.log_open():
        for step in range(3):
            console.event("train", "step", step=step)
            with real(log) as file:
                assert len(file.readlines()) == step + 1
    assert opened == [log]
    console.event("train", "done")
    assert opened == [log, log]
    with Console(quiet=True).log_open():
        pass  # there is none


def test_a_write_that_the_disk_takes_in_pieces_is_finished(tmp_path, monkeypatch):
    class Slow(FileIO):
        def write(self, data):
            return super().write(data[:7])

    log = tmp_path / "log.jsonl"
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", lambda path, mode, buffering: Slow(path, mode))
        Console(log, quiet=True).event("train", "done")
    assert json.loads(log.read_bytes())["event"] == "done"


def test_progress_is_plain_lines_where_there_is_no_terminal_and_silent_for_short_work(capsys, monkeypatch):
    with Console().progress("rings", 10, unit="parts") as advance:
        advance(10)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(console, "_QUIET_S", -1.0)
    with Console().progress("rings", 10, unit="parts") as advance:
        advance(4, note="loss 1.0")
    assert capsys.readouterr().err.startswith("rings: 4 of 10 parts, about ")
    with Console().progress("rings", 10) as advance:
        advance(10)
    assert capsys.readouterr().err == "rings: 10 of 10\n"


def test_first_steps_which_may_compile_do_not_count_for_the_time_that_is_left(capsys, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(console, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    for seconds, steps, left in (
        ([8, 5, 5], [5, 10, 25], ["", "about 42 s left", "about 17 s left"]),
        ([40, 10], [5, 5], ["about 760 s left", "about 180 s left"]),
    ):
        with Console().progress("map", 100) as advance:
            for took, done in zip(seconds, steps, strict=True):
                clock[0] += took
                advance(done)
        assert [line.partition(", ")[2] for line in capsys.readouterr().err.splitlines()] == left


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
