"""Executing a block as the plan says."""

import shlex
import shutil

from tests.commands import cli
from tests.docs.pages import PAGES, ROOT, assert_alike, blocks
from tests.docs.plan import PLAN, USUAL, Shell
from tests.docs.test_tutorial import FOLLOWED
from tests.docs.world import BIN, SHORT, bash

BLOCKS = {block.name: block for page in PAGES if page not in FOLLOWED for block in blocks(page)}
HOW = {name: PLAN.get(name, USUAL.get(block.language)) for name, block in BLOCKS.items()}


def named(kind):
    """Names of the blocks that are executed in this way."""
    return [name for name, how in HOW.items() if isinstance(how, kind)]


def shells(mark):
    """Names of the blocks that are run in a shell, with this mark; those that come before another run with it."""
    marked = [name for name in named(Shell) if HOW[name].mark == mark]
    before = {HOW[name].after for name in marked}
    return [name for name in marked if name not in before]


def script_of(name, **given):
    """The commands of a block, smaller where the plan says so; what is replaced must be there."""
    script = BLOCKS[name].script()
    for old, new in PLAN[name].replaced.items():
        assert old in script, f"{name} has no {old!r}: the plan is out of date"
        script = script.replace(old, new.format(root=ROOT, venv=BIN.parent, short=SHORT, **given))
    return script


def run_block(name, worlds, folder, **given):
    """Run a block in a world of its own; what a console block shows after its commands is what is printed."""
    how, script = PLAN[name], script_of(name, **given)
    if how.after:
        run_block(how.after, worlds, folder, **given)
    else:
        shutil.copytree(worlds / how.world, folder, symlinks=True)
    if how.before:
        bash(how.before, folder)
    if not how.mark and is_plain(BLOCKS[name].script()):
        printed = "".join(_printed_by(line, folder) for line in script.splitlines())
        bash(how.then, folder)
    else:
        printed = bash(f"{script}\n{how.then}\n", folder)
    shown = "".join(text for _, text in BLOCKS[name].steps()) if BLOCKS[name].language == "console" else ""
    if shown:
        assert_alike(shown, printed)
    return printed


def is_plain(script):
    """Whether it consists of commands of gscl-scale that need no shell: a process for each would import torch anew."""
    return all(line.startswith("gscl-scale ") for line in script.splitlines()) and not set(script) & set("\\|&;<>$`*")


def _printed_by(command, folder):
    done = cli(*shlex.split(command)[1:], cwd=folder, GSCL_SCALE_CACHE=str(folder / "cache"), GSCL_DATA=str(folder))
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
