"""The pages on clusters name every file, and its commands are ones that ray, kubectl's objects and our helper have."""

import itertools
import re
import shlex

import pytest
from ray.scripts.scripts import cli

from tests.cluster.kube import ROOT, manifests
from tests.cluster.test_submit import submit

PAGES = sorted(path.name for path in (ROOT / "docs").glob("cluster*.md"))
DOCS = "\n".join((ROOT / "docs" / page).read_text() for page in PAGES)
JOINED = re.sub(r" \\\n\s*", " ", DOCS)
BLOCKS = re.findall(r"^    (\S.*)$", JOINED, re.MULTILINE)
INLINE = re.findall(r"`([^`\n]+)`", JOINED)
COMMANDS = [*BLOCKS, *(text for text in INLINE if " " in text)]
OBJECTS = {(one.kind.lower(), one.metadata.name) for objects in manifests().values() for one in objects}

MADE = {  # by KubeRay and by the reader
    ("service", "gscl-scale-head-svc"), ("secret", "gscl-scale"), ("job", "NAME-OF-THE-RAYJOB"), ("rayjob", "NAME"),
    ("job", "try-1"), ("rayjob", "try-1"),
}  # fmt: skip


def starting(word):
    found = [command for command in COMMANDS if command.startswith(f"{word} ") and "..." not in command]
    assert found
    return sorted(set(found))


def anchor(heading):
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_every_file_is_told_about():
    named = {text for text in INLINE if text.startswith("cluster/")}
    folders = {text for text in named if text.endswith("/")}
    for path in sorted((ROOT / "cluster").rglob("*")):
        if path.is_file() and path.suffix != ".dockerignore":
            name = str(path.relative_to(ROOT))
            assert name in named or any(name.startswith(folder) for folder in folders), name


def test_every_file_that_is_named_is_there():
    named = {text for command in [*COMMANDS, *INLINE] for text in re.findall(r"\bcluster/[\w./*-]+", command)}
    assert len(named) > 8
    for name in named:
        assert list(ROOT.glob(name.rstrip("/"))), name


@pytest.mark.parametrize("page", [*PAGES, "ray.md"])
def test_every_link_leads_to_a_page_and_a_heading(page):
    text = (ROOT / "docs" / page).read_text()
    links = re.findall(r"\]\(((?!https:)[^)]*)\)", text)
    assert links or page == "cluster_runbook.md"
    for link in links:
        file, _, place = link.partition("#")
        target = (ROOT / "docs" / (file or page)).read_text()
        assert not place or place in {anchor(heading) for heading in re.findall(r"^#+ (.*)$", target, re.MULTILINE)}, (
            link
        )


@pytest.mark.parametrize("command", starting("ray"))
def test_every_command_of_ray_is_one_that_it_has(command):
    words, group = shlex.split(command)[1:], cli
    while hasattr(group, "commands"):
        group = group.commands[words.pop(0)]
    group.make_context("ray", words)


@pytest.mark.parametrize("command", starting("cluster/submit"))
def test_every_line_of_the_helper_is_one_that_it_takes(command, monkeypatch):
    monkeypatch.chdir(ROOT)
    args = submit.parse(shlex.split(command)[1:])
    assert submit.read_command(args.command, args.working_dir, args.excludes).verb == "run"


@pytest.mark.parametrize("command", sorted(set(re.findall(r"kubectl [^`|)\n]+", JOINED))))
def test_objects_that_kubectl_is_asked_for_are_those_of_the_manifests(command):
    words = shlex.split(command)
    asked = {
        tuple(word.removeprefix("--from=").split("/"))
        for word in words
        if re.fullmatch(r"(--from=)?[a-z]+/[\w-]+", word)
    }
    asked |= {(kind, name) for kind, name in itertools.pairwise(words[2:]) if kind.isalpha() and name[0].isalpha()}
    assert asked <= OBJECTS | MADE
    assert words[1] in {"apply", "create", "get", "logs", "delete", "port-forward", "patch", "describe"}
    assert "-f" in words or words[2] in {"rayjobs", "pods", "pod"} or asked
