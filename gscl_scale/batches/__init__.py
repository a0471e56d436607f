"""From samples to steps: the order of an epoch, and batches of distinct nodes with positions into them."""

from gscl_scale.batches.collate import Batch, Level, collate
from gscl_scale.batches.stream import BatchStream, epoch_order, steps_per_epoch

__all__ = ["Batch", "BatchStream", "Level", "collate", "epoch_order", "steps_per_epoch"]
