"""Changing by hand which version is current."""

from gscl_scale.errors import UserError
from gscl_scale.registry.lease import leased
from gscl_scale.registry.ledger import State
from gscl_scale.registry.versions import Registry
from gscl_scale.runtime.console import Console


def promote(registry: Registry, name: str, lease_s: float, console: Console) -> State:
    """Make a kept version the current one, whatever the gate said."""
    with leased(registry.store, lease_s, 0.0, console) as lease:
        state = lease.state
        if name not in state.kept():
            known = ", ".join(state.kept()) or "none"
            raise UserError(f"{registry.store.where}: expected a version that is kept, got {name}; there are: {known}")
        registry.version(name)  # it is whole
        promoted = (*(other for other in state.promoted if other != name), name)
        refused = tuple(other for other in state.refused if other != name)
        lease.record("promoted by hand", version=name, current=name, promoted=promoted, refused=refused)
        return registry.point()


def rollback(registry: Registry, lease_s: float, console: Console) -> State:
    """Make the version before the current one current again; the one that is left is kept as refused."""
    with leased(registry.store, lease_s, 0.0, console) as lease:
        state = lease.state
        if len(state.promoted) < 2:
            raise UserError(
                f"{registry.store.where}: there is no earlier version to go back to; "
                "gscl-scale registry list shows what there is"
            )
        *earlier, left = state.promoted
        registry.version(earlier[-1])
        lease.record(
            "rolled back", version=left, current=earlier[-1], promoted=tuple(earlier), refused=(*state.refused, left)
        )
        return registry.point()
