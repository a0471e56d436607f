"""A polite request to stop, as the training hears it."""

from gscl_scale.runtime.stop import asked_to_stop

__all__ = ["asked_to_stop"]
