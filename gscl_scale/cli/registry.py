"""gscl-scale registry: which versions there are, which is current, and going back."""

from dataclasses import asdict
from typing import Annotated

import typer

from gscl_scale.cli.help import VerbHelp
from gscl_scale.cli.options import AsJson
from gscl_scale.cli.output import print_json, print_table
from gscl_scale.registry.ledger import State
from gscl_scale.registry.places import open_registry
from gscl_scale.registry.promote import pin as pin_version
from gscl_scale.registry.promote import promote as promote_version
from gscl_scale.registry.promote import rollback as roll_back
from gscl_scale.registry.promote import unpin as unpin_version
from gscl_scale.registry.versions import Registry, Version

registry = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Where = Annotated[str, typer.Option("--registry", help="Folder of the registry, or a URL such as s3://bucket/name.")]
StoredVersion = Annotated[str, typer.Argument(help="A version of gscl-scale registry list.")]
_EVENTS = 20


@registry.command("list", cls=VerbHelp)
def list_versions(where: Where, as_json: AsJson = False) -> None:
    """List the stored versions, the newest last."""
    opened = open_registry(where)
    state = opened.ledger.newest()
    versions = [opened.version(name) for name in state.kept()]
    if as_json:
        print_json([{"version": one.name, "state": _state_of(one, state), **one.index} for one in versions])
        return
    rows = []
    for one in versions:
        figures, nodes = one.index.get("figures", {}), one.index.get("graph", {}).get("nodes", 0)
        size = sum(entry["bytes"] for entry in one.index["files"].values()) / 1e6
        rows.append(
            (one.name, _state_of(one, state), f"{nodes:,}", _share(figures.get("probe")),
             _share(figures.get("ranking")), _share(figures.get("links")), _share(_foreseen(one)),
             _share(figures.get("alignment")), f"{size:,.1f} MB")
        )  # fmt: skip
    headers = ["version", "", "nodes", "probe", "ranking", "links", "foreseen", "alignment", "size"]
    print_table(headers, rows, title=f"registry {where}")
    if state.pinned:
        print(f"{state.current} is pinned")


@registry.command(cls=VerbHelp)
def show(where: Where, as_json: AsJson = False) -> None:
    """Show the current version, the lease and the last events."""
    opened = open_registry(where)
    state = opened.ledger.newest()
    records = [opened.ledger.at(number) for number in opened.ledger.numbers()[-_EVENTS:]]
    if as_json:
        print_json({**asdict(state), "records": [asdict(record) for record in records]})
        return
    rows = [(record.time, record.event, record.version, record.reason) for record in records]
    print_table(["time", "event", "version", "reason"], rows, title=f"registry {where}")
    print(f"current  {state.current or 'none'}{', pinned' if state.pinned else ''}")
    print(f"lease    {state.holder or 'free'}")


@registry.command(cls=VerbHelp)
def promote(version: StoredVersion, where: Where) -> None:
    """Make a version current, whatever the gate said of it.

    Works at any time, also while a night runs."""
    print(_now_current(promote_version(open_registry(where), version), where))


@registry.command(cls=VerbHelp)
def rollback(where: Where) -> None:
    """Make the version before the current one current again.

    Works at any time, also while a night runs. The next retrain does not promote the same graph and settings a second
    time."""
    print(_now_current(roll_back(open_registry(where)), where))


@registry.command(cls=VerbHelp)
def pin(version: StoredVersion, where: Where) -> None:
    """Make a version current and keep it so.

    Nights go on making versions and comparing them by the gate, and store those that pass as candidates. promote and
    rollback still work; the version that they make current is pinned then."""
    print(_now_current(pin_version(open_registry(where), version), where))


@registry.command(cls=VerbHelp)
def unpin(where: Where) -> None:
    """Let nights change the current version again."""
    print(_now_current(unpin_version(open_registry(where)), where))


def _now_current(state: State, where: str) -> str:
    """Which version is current, and what that means for nights."""
    if not state.current:
        return "no version is current"
    sentence = f"{state.current} is current"
    if state.pinned:
        sentence += (
            f" and pinned: nights store their versions as candidates until gscl-scale registry unpin --registry {where}"
        )
    elif state.holder:
        sentence += f"; the night that runs ({state.holder}) promotes its version only if it began with {state.current}"
    if Registry(where).version(state.current).index.get("removed"):
        sentence += (
            "; its samples and checkpoints were removed (retrain.keep_complete), so the next night samples all anchors "
            "and starts from new weights"
        )
    return sentence


def _state_of(version: Version, state: State) -> str:
    """Whether a version is current, was refused by the gate, or rolled back; older ledgers do not say that."""
    if version.name == state.current:
        return "current"
    if version.name not in state.refused:
        return "earlier"
    if version.name in state.candidates:
        return "candidate"
    return "rolled back" if version.name in state.rolled_back or not version.refusal else "refused"


def _foreseen(version: Version) -> float | None:
    """AUC of the version before on the edges that had come when this one was made."""
    since = version.index.get("links", {}).get("since")
    return since["current"]["auc"] if since else None


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
