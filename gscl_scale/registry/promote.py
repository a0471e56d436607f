"""Changing by hand which version is current, at any time: nobody needs the lease, and a night that runs goes on."""

from collections.abc import Callable

from gscl_scale.errors import UserError
from gscl_scale.registry.ledger import State, StateChange
from gscl_scale.registry.versions import Registry
from gscl_scale.storage.stores import check_creation


def promote(registry: Registry, name: str) -> State:
    """Make a stored version the current one, whatever the gate said; it is pinned if the one before was."""
    return _append(registry, lambda state: _made_current(registry, state, name, "promoted by hand"))


def pin(registry: Registry, name: str) -> State:
    """Make a stored version the current one, and have nights leave it so."""
    return _append(registry, lambda state: {**_made_current(registry, state, name, "pinned"), "pinned": True})


def unpin(registry: Registry) -> State:
    """Let nights change the current version again; nothing is written where they may already."""
    return _append(
        registry, lambda s: {"event": "unpinned", "version": s.current, "pinned": False} if s.pinned else None
    )


def rollback(registry: Registry) -> State:
    """Make the version before the current one current again; the next night does not promote the one that is left."""
    leaving, place = registry.ledger.newest().current, registry.store.where

    def step_back(state: State) -> StateChange:
        if state.current != leaving:
            raise UserError(
                f"{place}: {state.current} became current in place of {leaving} in this very moment, so nothing was "
                f"rolled back; gscl-scale registry show --registry {place} shows what happened"
            )
        if len(state.promoted) < 2:
            raise UserError(
                f"{place}: there is no earlier version to go back to; "
                f"gscl-scale registry list --registry {place} shows what there is"
            )
        *earlier, left = state.promoted
        registry.version(earlier[-1])  # FolderError if it is damaged
        return {
            "event": "rolled back",
            "version": left,
            "current": earlier[-1],
            "promoted": tuple(earlier),
            "refused": (*state.refused, left),
            "rolled_back": (*(name for name in state.rolled_back if name in state.refused), left),
        }

    return _append(registry, step_back)


def without(name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The other names."""
    return tuple(other for other in names if other != name)


def _append(registry: Registry, decide: Callable[[State], StateChange | None]) -> State:
    """Write what is decided from the newest record after it; where another record came in between, decide again."""
    check_creation(registry.store)
    while True:
        state = registry.ledger.newest()
        change = decide(state)
        if not change or registry.ledger.append(state, **change):
            return registry.point()


def _made_current(registry: Registry, state: State, name: str, event: str) -> StateChange:
    if name not in state.kept():
        known = ", ".join(state.kept()) or "none"
        raise UserError(f"{registry.store.where}: expected a stored version, got {name}; there are: {known}")
    registry.version(name)  # FolderError if it is damaged
    return {
        "event": event,
        "version": name,
        "current": name,
        "promoted": (*without(name, state.promoted), name),
        "refused": without(name, state.refused),
        "rolled_back": without(name, state.rolled_back),
        "candidates": without(name, state.candidates),
    }
