"""The verb `doctor`: prints each finding as it is made, with its cure."""

import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from gscl_scale.cli.doctor.check import Finding
from gscl_scale.cli.open_run import load_config
from gscl_scale.cli.options import AsJson, ConfigFile, RunOption, Settings
from gscl_scale.cli.output import print_json
from gscl_scale.text import counted

if TYPE_CHECKING:
    from gscl_scale.config.config import Config

_LOG_WIDTH = 100
_SHOWN = {"ok": "ok", "note": "note", "trouble": "FAIL"}


def doctor(
    config_file: ConfigFile = None,
    settings: Settings = None,
    run_folder: RunOption = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="Start Ray and run a task, also if the config needs none.")
    ] = False,
    warm: Annotated[
        bool, typer.Option("--warm", help="Compile the kernels of ordinary runs, so that no later command has to.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check this machine for what a run needs.

    Checks versions, cores, memory, GPUs, shared memory, disks and permissions, for the run of --config or with default
    settings; and Ray, if the config names it or with --ray. Exit code 1: a run would fail."""
    config, where = load_config(config_file, settings, run_folder, named=False)
    found = []
    for finding in _examine(config, where, ray, warm):
        found.append(finding)
        if not as_json:
            print(_text(finding), flush=True)
    states = [finding.state for finding in found]
    failed, notes = states.count("trouble"), states.count("note")
    if as_json:
        print_json([vars(finding) for finding in found])
    elif failed:
        print(f"{counted(failed, 'check', 'checks')} failed; fix them first, as described below each")
    else:
        print(f"no check failed{f'; {notes} could be better' if notes else ''}")
    if failed:
        raise typer.Exit(1)


def _examine(config: "Config", where: str, ray: bool, warm: bool) -> Iterator[Finding]:
    from gscl_scale.cli.doctor.folders import examine_places, existing
    from gscl_scale.cli.doctor.hardware import examine_hardware
    from gscl_scale.cli.doctor.software import examine_ray, examine_software
    from gscl_scale.storage.urls import folder_of

    yield from examine_software()
    yield from examine_hardware(config.runtime)
    yield from examine_places(config, where)
    if ray or config.runtime.engine == "ray":
        yield examine_ray(config.runtime, existing(folder_of(where)))
    if warm:
        from gscl_scale.cli.doctor.warm import compile_kernels

        yield compile_kernels()


def _text(finding: Finding) -> str:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _LOG_WIDTH
    lines = [_wrapped(finding.found, width, f"{_SHOWN[finding.state]:<5} {finding.about:<18} ")]
    if finding.cure:
        lines.append(_wrapped(finding.cure, width, "      -> "))
    return "\n".join(lines)


def _wrapped(text: str, width: int, start: str) -> str:
    return textwrap.fill(
        text, width, initial_indent=start, subsequent_indent=" " * len(start), break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip
