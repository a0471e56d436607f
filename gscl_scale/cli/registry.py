"""gscl-scale registry: which versions there are, which is current, and going back."""

from dataclasses import asdict
from typing import Annotated

import typer

from gscl_scale.cli.options import AsJson
from gscl_scale.cli.output import print_json, print_table
from gscl_scale.registry.ledger import State
from gscl_scale.registry.promote import promote as promote_version
from gscl_scale.registry.promote import rollback as roll_back
from gscl_scale.registry.versions import Registry
from gscl_scale.runtime.console import Console

registry = typer.Typer(help="Versions of embeddings: list, look, promote, go back.", no_args_is_help=True)

Where = Annotated[str, typer.Option("--registry", help="Folder of the registry, or a URL such as s3://bucket/name.")]
LeaseS = Annotated[float, typer.Option("--lease-s", help="As retrain.lease_s of the runs.")]
_EVENTS = 20


@registry.command("list")
def list_versions(where: Where, as_json: AsJson = False) -> None:
    """The versions that are kept, the newest last."""
    opened = Registry(where)
    state = opened.ledger.newest()
    versions = [opened.version(name) for name in state.kept()]
    if as_json:
        print_json([{"version": one.name, "state": _state_of(one.name, state), **one.index} for one in versions])
        return
    rows = []
    for one in versions:
        figures, graph = one.index.get("figures", {}), one.index.get("graph", {})
        size = sum(entry["bytes"] for entry in one.index["files"].values()) / 1e6
        rows.append(
            (one.name, _state_of(one.name, state), f"{graph.get('nodes', 0):,}", _share(figures.get("probe")),
             _share(figures.get("ranking")), _share(figures.get("alignment")), f"{size:,.1f} MB")
        )  # fmt: skip
    print_table(["version", "", "nodes", "probe", "ranking", "alignment", "size"], rows, title=f"registry {where}")


@registry.command()
def show(where: Where, as_json: AsJson = False) -> None:
    """What is current, who has the lease, and what happened last."""
    opened = Registry(where)
    state = opened.ledger.newest()
    records = [opened.ledger.at(number) for number in opened.ledger.numbers()[-_EVENTS:]]
    if as_json:
        print_json({**asdict(state), "records": [asdict(record) for record in records]})
        return
    rows = [(record.time, record.event, record.version, record.reason) for record in records]
    print_table(["time", "event", "version", "reason"], rows, title=f"registry {where}")
    print(f"current  {state.current or 'none'}")
    print(f"lease    {state.holder or 'free'}")


@registry.command()
def promote(
    version: Annotated[str, typer.Argument(help="A version of gscl-scale registry list.")],
    where: Where,
    lease_s: LeaseS = 60.0,
) -> None:
    """Make a version current, whatever the gate said of it."""
    state = promote_version(Registry(where), version, lease_s, Console())
    print(f"{state.current} is current")


@registry.command()
def rollback(where: Where, lease_s: LeaseS = 60.0) -> None:
    """Make the version before the current one current again.

    The same graph and settings are not promoted a second time."""
    state = roll_back(Registry(where), lease_s, Console())
    print(f"{state.current} is current")


def _state_of(name: str, state: State) -> str:
    return "current" if name == state.current else "refused" if name in state.refused else "earlier"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
