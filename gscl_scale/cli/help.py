"""Help texts: verbs in groups, two examples for each, and plain words for the kinds of options."""

from typing import Any

from typer.core import TyperCommand, TyperGroup

GROUPS = {
    "Start here": {
        "demo": ("demo", "demo --run runs/first --set train.repeats=5"),
        "run": ("run edges.csv --nodes nodes.csv", "run --config mine.yaml --set train.epochs=20"),
        "plan": ("plan --config mine.yaml", "plan --nodes 1e9 --edges 1e10 --machines 8 --memory 32"),
        "status": ("status --run runs/edges", "status --run runs/edges --watch 5"),
        "config": ("config --schema train", "config --run runs/edges"),
        "doctor": ("doctor", "doctor --config mine.yaml"),
    },
    "Stages": {
        "ingest": ("ingest edges.csv", "ingest --config mine.yaml --run runs/mine"),
        "stats": ("stats edges.csv --plot lc.svg", "stats --run runs/edges --json"),
        "precompute": ("precompute --run runs/edges", "precompute --config mine.yaml --run runs/new --since runs/old"),
        "train": ("train --run runs/edges", "train --config mine.yaml --set train.seed=1 --run runs/seed-1"),
        "embed": ("embed --run runs/edges --out all.npy", "embed --run runs/edges --ids some.csv --out some.parquet"),
        "evaluate": ("evaluate --run runs/edges", "evaluate --run runs/edges --json"),
        "report": ("report --run runs/edges", "report runs/edges runs/edges-2 --out comparison.html"),
    },
    "Use": {
        "neighbors": ("neighbors --run runs/edges --id 42", "neighbors --run runs/edges --all --out all.parquet"),
    },
    "Studies": {
        "compare": ("compare edges.csv --methods dgi,grace,cleora", "compare --config mine.yaml --set train.repeats=5"),
        "tune": ("tune edges.csv --trials 50", "tune --config mine.yaml --space space.yaml --minutes 60"),
        "reproduce": ("reproduce main --only cora --seeds 5", "reproduce methods --methods gae,dgi"),
        "bench": ("bench rings --config mine.yaml", "bench scale --edges 1e6"),
    },
    "Schedule": {
        "retrain": ("retrain --config mine.yaml --registry versions", "retrain --config mine.yaml --registry s3://bucket/name"),
        "registry": ("registry list --registry versions", "registry rollback --registry versions"),
    },
}  # fmt: skip
_OTHERS = "Commands"
_KINDS = {"int": "NUMBER", "float": "NUMBER", "path": "PATH", "file": "PATH", "str": "TEXT", "text": "TEXT"}


def group_of(verb: str) -> str:
    """The group that lists a verb."""
    return next(group for group, verbs in GROUPS.items() if verb in verbs)


def examples_of(verb: str) -> str:
    """The examples of a verb, as they stand below its options."""
    lines = [f"  gscl-scale {example}" for example in GROUPS[group_of(verb)][verb]]
    return "\n".join(["\b", "Examples:", *lines])


def plain_kind(shown: str) -> str:
    """The kind of an option in one plain word.

    >>> plain_kind("<int range>"), plain_kind("<list[str]>"), plain_kind("FILE")
    ('NUMBER', 'TEXT', 'FILE')
    """
    inner = shown.strip("<>[]").removeprefix("list[").lower()
    return next((word for kind, word in _KINDS.items() if inner.startswith(kind)), shown)


class VerbHelp(TyperCommand):
    """A command whose options have plain kinds."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options."""
        for option in list[Any](self.params):
            if option.param_type_name == "argument":
                option.display_type_rich = lambda ctx: ""  # its name says it
            elif not option.is_flag:
                kind: Any = getattr(option, "display_type", None) or option.make_metavar  # of older versions of typer
                option.metavar = option.metavar or plain_kind(kind(ctx))
        super().format_options(ctx, formatter)


class GroupHelp(TyperGroup):
    """A group that lists its commands below the names of their groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, group after group."""
        verbs = {name: command for name, command in self.commands.items() if not command.hidden}
        width = max(map(len, verbs), default=0)
        groups: dict[str, list[tuple[str, str]]] = {group: [] for group in (*GROUPS, _OTHERS)}
        for name, command in verbs.items():
            line = command.get_short_help_str(formatter.width - 6 - width)
            groups[getattr(command, "rich_help_panel", None) or _OTHERS].append((f"{name:<{width}}", line))
        for group, lines in groups.items():
            if lines:
                with formatter.section(group):
                    formatter.write_dl(lines)
