"""Every verb of the command line: a page for each."""

import re
from typing import Any

from typer.main import get_command

from gscl_scale.cli.help import GROUPS, group_of, plain_kind
from gscl_scale.cli.main import app
from tools.reference.markdown import code, page, rows

_INDEX = """
`--help` behind a verb prints what is on these pages. `--install-completion` teaches your shell the verbs and keys, and
`--version` prints the version. After the exit codes 1 and 130, the same command resumes.
""".strip()
EXIT_CODES = {
    "0": "done, or nothing to do",
    "1": "the work failed",
    "2": "bad input: correct what the message names",
    "3": "`retrain`: the gate refused the new version",
    "4": "another process works in the run folder, or has the lease of the registry",
    "130": "stopped by Ctrl-C",
}


def commands() -> dict[str, Any]:
    """Every verb, those of a group under both names: {"bench rings": command}."""
    found: dict[str, Any] = {}
    for name, command in get_command(app).commands.items():
        found[name] = command
        found |= {f"{name} {verb}": below for verb, below in getattr(command, "commands", {}).items()}
    return found


def pages() -> dict[str, str]:
    """{name: text} of the pages of all verbs, and the page that lists them in their groups."""
    verbs = commands()
    found: dict[str, str] = {}
    for name, command in verbs.items():
        if " " not in name:
            below = [part for other in verbs if other.startswith(f"{name} ") for part in _section(other, verbs[other])]
            found[f"verbs/{name}.md"] = page(f"gscl-scale {name}", *_body(name, command), *_examples(name), *below)
    parts = [_INDEX]
    for group, names in GROUPS.items():
        lines = [(f"[`{name}`]({name}.md)", _summary(verbs[name])) for name in names]
        parts += [f"## {group}", rows(("verb", "does"), lines)]
    parts += ["## Exit codes", rows(("code", "means"), EXIT_CODES.items())]
    return found | {"verbs/index.md": page("Command line", *parts)}


def _examples(name: str) -> list[str]:
    """The examples of a verb, as its help has them."""
    return ["Examples:", "\n".join(f"- `gscl-scale {example}`" for example in GROUPS[group_of(name)][name])]


def _section(name: str, command: Any) -> list[str]:
    return [f"## gscl-scale {name}", *_body(name, command)]


def _body(name: str, command: Any) -> list[str]:
    """What a verb does and its options, in the words of its help."""
    context = command.make_context(name, [], resilient_parsing=True)
    records = [(one, one.get_help_record(context)) for one in command.params if "--help" not in one.opts]
    lines = [(code(_plain(one, shown[0])), shown[1]) for one, shown in records if shown]
    return [_text(command.help or ""), rows(("option", "meaning"), lines) if lines else ""]


def _plain(one: Any, written: str) -> str:
    """An option with its kind in one plain word, an argument without."""
    named = one.param_type_name != "argument"
    return re.sub(r" <.*>$", lambda found: named * f" {plain_kind(found[0].strip())}", written)


def _text(words: str) -> str:
    """Help of a verb as paragraphs."""
    return words.replace("\b\n", "").strip()


def _summary(command: Any) -> str:
    return " ".join((command.help or "").strip().partition("\n\n")[0].split())
