"""Whether the version of a night becomes current, decided from the ledger as it is at that moment.

People roll back, promote and pin while a night runs. A version becomes current only if the gate compared it with the
version that is current now, and nothing is pinned; otherwise it is stored as a candidate.
"""

from gscl_scale.registry.ledger import State, StateChange
from gscl_scale.registry.promote import without


def decide(state: State, version: str, base: str, refusal: str, keep: int) -> StateChange:
    """The record about a new version that was compared with `base`: promoted, refused by the gate, or a candidate."""
    reason = refusal or held_back(state, base)
    if not reason:
        promoted = (*state.promoted, version)[-keep:]
        return {"event": "promoted", "version": version, "current": version, "promoted": promoted}
    refused = (*state.refused, version)[1 - keep :]
    candidates = state.candidates if refusal else (*state.candidates, version)
    return {
        "event": "refused" if refusal else "candidate",
        "version": version,
        "reason": reason,
        "refused": refused,
        "candidates": tuple(name for name in candidates if name in refused),
    }


def promote_again(state: State, version: str, base: str, keep: int) -> StateChange | None:
    """The record that makes a stored version current, for a night that began when `base` was; None if it may not."""
    is_refused = version in state.refused and version not in state.candidates
    if is_refused or version == state.current or held_back(state, base):
        return None
    return {
        "event": "promoted again",
        "version": version,
        "current": version,
        "promoted": (*without(version, state.promoted), version)[-keep:],
        "refused": without(version, state.refused),
        "candidates": without(version, state.candidates),
    }


def held_back(state: State, base: str) -> str:
    """Why a version that was compared with `base` may not become current, in words; "" if it may."""
    if state.pinned:
        return f"{state.current} is pinned"
    if state.current != base:
        return f"{state.current} became current in place of {base or 'nothing'} while this night ran"
    return ""
