"""Versions of embeddings, which of them is current, and who may change that."""

from gscl_scale.registry.lease import Lease, leased
from gscl_scale.registry.ledger import Ledger, State
from gscl_scale.registry.versions import CURRENT, Registry, Version

__all__ = ["CURRENT", "Lease", "Ledger", "Registry", "State", "Version", "leased"]
