"""What a training keeps on a GPU: the whole graph in each step, and rounds, where they fit."""

from dataclasses import dataclass

from gscl_scale.config.config import Config
from gscl_scale.config.sections import ModelConfig
from gscl_scale.text import format_bytes

_NUMBER = 4  # bytes
_USABLE = 0.8  # of the free memory: torch keeps blocks that it cannot use, and the estimate is of one step
_BESIDE_FIELDS = 0.25  # of it for rounds, where what a batch encodes is not known beforehand
_MARGIN = 1.25  # casts to lower precision, and what a sparse product needs while it runs
_MOST_DENSE = 1 << 28  # entries of anchors x nodes, as in model.pairs
_SIMILARITIES = 10  # copies of the similarities of a batch that the loss and its gradient have at once


@dataclass(frozen=True)
class DevicePlan:
    """How a training uses a device, and why.

    whole    encode all nodes in each step, in place of those that the batch depends on
    room     bytes that a round may take there
    reason   a sentence with the numbers
    graphs   record the encoder's passes as CUDA graphs
    """

    whole: bool
    room: int
    reason: str
    graphs: bool = False


def plan_device(
    config: Config, num_nodes: int, num_values: int, num_messages: int, free: int, kernels: bool = False
) -> DevicePlan:
    """Decide for a graph that lies on a device with so much memory left.

    num_values     numbers that the features store
    num_messages   that one layer gathers
    kernels        whether the device has the fused kernels
    """
    usable = int(_USABLE * free)
    beside = int(_BESIDE_FIELDS * usable)
    if config.model.propagation == "sampled":
        return DevicePlan(False, beside, "Each step encodes sampled neighbours (model.propagation is sampled).")
    step = step_bytes(config.model, num_nodes, num_values, num_messages, kernels)
    asked = config.train.cuda_graphs
    for graphs in [True, False] if asked == "auto" and not config.lacking_for_cuda_graphs() else [asked is True]:
        # a CUDA graph keeps the memory of its passes, and a validation needs some besides
        need = step * (1 + graphs) + batch_bytes(config, num_nodes)
        numbers = (
            f"a step over all nodes takes about {format_bytes(need)} of GPU memory, {format_bytes(usable)} can be used"
        )
        if need <= usable:
            way = ", by CUDA graphs" * graphs
            return DevicePlan(True, usable - need, f"Each step encodes the whole graph{way}: {numbers}.", graphs)
    return DevicePlan(False, beside, f"Each step encodes what its batch depends on: {numbers}.")


def step_bytes(model: ModelConfig, num_nodes: int, num_values: int, num_messages: int, kernels: bool = False) -> int:
    """Bytes that encoding all nodes takes at its peak, forward and backward, beside the graph.

    In rows of the width of a layer per node: what each layer saves for its gradient, and what is there at once in the
    layer that takes most. Without the fused kernels, keyed noise passes through three 64-bit numbers per value, and
    gat writes one row per message. Counted on the device `meta`.
    """
    noise = not kernels and (model.activation == "rrelu" or (model.hidden_dropout > 0 and model.layers > 1))
    once, layer = (4.0, 3.3) if noise else (2.5, {"gcn": 2.0, "sage": 3.0, "gat": 4.4}[model.encoder])
    saved = layer + model.layers if model.recompute else layer * model.layers
    rows = num_nodes * model.width * (once + saved)
    features = num_values * (2.0 if kernels else 6.5) if model.dropped_features > 0 else 0.0
    layers = 1 if model.recompute else model.layers
    attention = model.width * (2.8 + 1.8 * layers) + 16 * layers  # the latter of the heads
    messages = num_messages * attention if model.encoder == "gat" and not kernels else 0.0
    dropped = num_messages * (2 + 4 * model.layers) if model.message_dropout > 0 else 0
    return int(_MARGIN * _NUMBER * (rows + features + messages + dropped))


def batch_bytes(config: Config, num_nodes: int) -> int:
    """Bytes that comparing the anchors of a micro-batch takes at most."""
    anchors = -(-config.train.batch_size // config.train.accumulate)
    return _NUMBER * 2 * min(anchors * num_nodes, _MOST_DENSE) + compared_bytes(config)


def compared_bytes(config: Config) -> int:
    """The part of it where the anchors are compared pair by pair, as on a CPU."""
    anchors = -(-config.train.batch_size // config.train.accumulate)
    rings = config.rings
    return _NUMBER * _SIMILARITIES * anchors * (rings.hops * rings.width + rings.beyond + config.train.negatives)
