"""Changing by hand which version is current."""

from gscl_scale.errors import UserError
from gscl_scale.registry.lease import hold_lease
from gscl_scale.registry.ledger import State
from gscl_scale.registry.versions import Registry
from gscl_scale.runtime.console import Console


def promote(registry: Registry, name: str, lease_s: float, console: Console) -> State:
    """Make a stored version the current one, whatever the gate said."""
    with hold_lease(registry.store, lease_s, 0.0, console) as lease:
        state = lease.state
        if name not in state.kept():
            known = ", ".join(state.kept()) or "none"
            raise UserError(f"{registry.store.where}: expected a stored version, got {name}; there are: {known}")
        registry.version(name)  # FolderError if it is damaged
        lease.record(
            "promoted by hand",
            version=name,
            current=name,
            promoted=(*_without(name, state.promoted), name),
            refused=_without(name, state.refused),
            rolled_back=_without(name, state.rolled_back),
        )
        return registry.point()


def rollback(registry: Registry, lease_s: float, console: Console) -> State:
    """Make the version before the current one current again; the next night does not promote the one that is left."""
    with hold_lease(registry.store, lease_s, 0.0, console) as lease:
        state = lease.state
        if len(state.promoted) < 2:
            raise UserError(
                f"{registry.store.where}: there is no earlier version to go back to; "
                f"gscl-scale registry list --registry {registry.store.where} shows what there is"
            )
        *earlier, left = state.promoted
        registry.version(earlier[-1])
        lease.record(
            "rolled back",
            version=left,
            current=earlier[-1],
            promoted=tuple(earlier),
            refused=(*state.refused, left),
            rolled_back=(*(name for name in state.rolled_back if name in state.refused), left),
        )
        return registry.point()


def _without(name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(other for other in names if other != name)
