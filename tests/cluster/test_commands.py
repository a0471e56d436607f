"""Every command of gscl-scale in cluster/ and the pages on clusters is one that the command line takes."""

import itertools
import re
import shlex

import pytest
import typer

from gscl_scale.cli.main import app
from gscl_scale.config.config import Config
from gscl_scale.config.read import apply_setting
from tests.cluster.kube import ROOT

PAGES = sorted((ROOT / "docs").glob("cluster*.md"))
FILES = [*(path for path in sorted((ROOT / "cluster").rglob("*")) if path.is_file()), *PAGES]
VERB = r"([a-z]+ +-{1,2}[a-z][^`\n]*)"  # a verb and its first option; the rest of the line
FOUND = [
    (path.name, command)
    for path in FILES
    for command in re.findall(
        rf"(?:(?<![\w./])gscl-scale|bin/gscl-scale|cluster/submit\b[^`\n]*? --) +{VERB}",
        re.sub(r"\\\n\s*", " ", path.read_text()),
    )
]


def parses(words):
    """Whether the command line takes these words; nothing is run."""
    command = typer.main.get_command(app)
    context = command.make_context("gscl-scale", list(words))
    name, verb, rest = command.resolve_command(context, [*context._protected_args, *context.args])
    verb.make_context(name, rest, parent=context)


def test_the_commands_are_found_where_they_are_known_to_be():
    counted = {name: sum(path == name for path, _ in FOUND) for name, _ in FOUND}
    assert counted == {
        "cronjob.yaml": 1, "raycronjob.yaml": 1, "rayjob.yaml": 1, "slurm.sh": 1, "submit": 1,
        "gscl-scale-retrain.service": 1, "cluster.md": 5, "cluster_kubernetes.md": 2, "cluster_machines.md": 1,
        "cluster_tutorial.md": 3, "Dockerfile": 1,
    }  # fmt: skip


@pytest.mark.parametrize(("path", "command"), FOUND)
def test_every_command_is_taken(path, command):
    words = shlex.split(command)
    parses(words)
    values = {}
    for flag, value in itertools.pairwise(words):
        if flag == "--set":
            apply_setting(values, value)
    Config.parse(values)


@pytest.mark.parametrize("command", ["runs --config FILE", "run --folder DIR", "run --config"])
def test_a_command_that_is_not_taken_is_noticed(command):
    with pytest.raises(Exception, match=r"No such command|No such option|requires an argument"):
        parses(command.split())
