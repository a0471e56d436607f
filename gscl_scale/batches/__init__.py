"""From samples to steps: the order of an epoch, and batches of distinct nodes with positions into them."""

from gscl_scale.batches.collate import Batch, Pairs, collate
from gscl_scale.batches.field import Block, Draw, Field, FieldMaker
from gscl_scale.batches.stream import BatchStream, Share, epoch_order, held_out, steps_per_epoch

__all__ = [
    "Batch",
    "BatchStream",
    "Block",
    "Draw",
    "Field",
    "FieldMaker",
    "Pairs",
    "Share",
    "collate",
    "epoch_order",
    "held_out",
    "steps_per_epoch",
]
