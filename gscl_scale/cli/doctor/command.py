"""The verb `doctor`: findings as they are made, and what to do."""

import shutil
import sys
import textwrap
from collections.abc import Iterator

import typer

from gscl_scale.cli.doctor.check import Finding
from gscl_scale.cli.doctor.folders import examine_places, existing
from gscl_scale.cli.doctor.hardware import examine_hardware
from gscl_scale.cli.doctor.ray import examine_ray
from gscl_scale.cli.doctor.software import examine_software
from gscl_scale.cli.open_run import named
from gscl_scale.cli.options import AsJson, ConfigFile, RunOption, Settings
from gscl_scale.cli.output import print_json
from gscl_scale.config.config import Config
from gscl_scale.storage.urls import folder_of

_LOG_WIDTH = 100
_MARKS = {"ok": "ok", "note": "note", "trouble": "FAIL"}
_ABOUT = 18


def doctor(
    config_file: ConfigFile = None, settings: Settings = None, run_folder: RunOption = None, as_json: AsJson = False
) -> None:
    """What is missing on this machine, and the cure.

    Versions, cores, memory, GPUs, shared memory, disks, rights, Ray; with --config what that run needs. Exit code 1 if
    something would make it fail."""
    config, where = named(config_file, settings, run_folder)
    found = []
    for finding in examine(config, where):
        found.append(finding)
        if not as_json:
            print(_lines(finding), flush=True)
    failed = [finding for finding in found if finding.state == "trouble"]
    if as_json:
        print_json([vars(finding) for finding in found])
    else:
        print(_summary(len(failed), sum(finding.state == "note" for finding in found)))
    if failed:
        raise typer.Exit(1)


def examine(config: Config, where: str) -> Iterator[Finding]:
    """Everything, one after the other."""
    yield from examine_software()
    yield from examine_hardware(config.runtime)
    yield from examine_places(config, where)
    yield examine_ray(config.runtime, existing(folder_of(where)))


def _lines(finding: Finding) -> str:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _LOG_WIDTH
    start = f"{_MARKS[finding.state]:<5} {finding.about:<{_ABOUT}} "
    told = _wrapped(finding.found, width, start)
    return f"{told}\n{_wrapped(finding.cure, width, '      -> ')}" if finding.cure else told


def _wrapped(text: str, width: int, start: str) -> str:
    return textwrap.fill(
        text, width, initial_indent=start, subsequent_indent=" " * len(start), break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip


def _summary(failed: int, notes: int) -> str:
    if failed:
        return f"{failed} of these must be mended first; what to do stands below each"
    return f"nothing is missing{f'; {notes} could be better' if notes else ''}"
