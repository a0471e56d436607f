"""Commands within the text: the command line takes them, though nothing is run."""

import shlex

import pytest
import typer

from gscl_scale.cli.main import app
from tests.cluster.test_commands import parses
from tests.docs.pages import PAGES, inline

ALONE = "gscl-scale --help"  # has no verb
FOUND = sorted(
    {
        (page, code)
        for page in PAGES
        for code in inline(page)
        if code.startswith("gscl-scale ") and "..." not in code and code != ALONE
    }
)


def completed(words):
    """What a sentence leaves out: the file or folder that an option wants, or the subject of a verb."""
    verb = typer.main.get_command(app).commands[words[0]]
    wanted = {"neighbors": "runs/mine", "reproduce": "main"}.get(words[0])
    if wanted and (len(words) == 1 or words[1].startswith("-")):
        words = [words[0], wanted, *words[1:]]
    needed = [option for option in verb.params if option.required and option.opts[0].startswith("--")]
    for option in needed:
        if option.opts[0] not in words:
            words += [option.opts[0], "DIR"]
    return words


@pytest.mark.parametrize(("page", "code"), FOUND)
def test_every_command_in_the_text_is_taken(page, code):
    words = completed(shlex.split(code)[1:])
    parses(words)
    assert words


def test_there_are_many_of_them():
    assert len(FOUND) > 25
