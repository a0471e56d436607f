"""What the evaluation and the report take: each one process on one machine."""

from gscl_scale.config.config import Config
from gscl_scale.planning.embedding import embedding_width, layer_need, program_bytes
from gscl_scale.planning.graph_shape import GraphShape
from gscl_scale.planning.need import Machines, StageNeed
from gscl_scale.planning.rates import Rates

_EVALUATE = 100 << 20  # bytes of scikit-learn and of the kernels of the evaluation
REPORT = 560 << 20
_FLOAT = 4
_LOGITS = 1 << 26  # as in evaluate.linear_probe
_BLOCK_ROWS = 32768
_SHARE_OF_MEMORY = 4  # as in embed.store: embeddings above a quarter of the memory are mapped
_METHODS = 3
_MAP_NODES = 100_000
_MAP_BYTES = 3500  # of a node on the map: its nearest nodes, and what t-SNE keeps of them
_MAP_S = 2.2e-3  # seconds of a core for a node on the map: t-SNE is not bound by what rates measure
_SEARCHED = 4_000_000_000  # as in evaluate.search: most pairs of a query and a candidate
_REPORT_S = 5.0
_REPORT_BYTES = 4 << 20


def evaluation_need(config: Config, shape: GraphShape, machines: Machines, rates: Rates, round_bytes: int) -> StageNeed:
    """What `evaluate` takes."""
    layers = layer_need(config, shape, machines.cores, rates, machines.memory)
    width = embedding_width(config.model, shape)
    vectors = _FLOAT * shape.num_nodes * width
    held, file = (vectors, 0) if vectors <= machines.memory // _SHARE_OF_MEMORY else (0, vectors)
    program = program_bytes(config.model) + _EVALUATE
    allocated = program + held + layers.allocated + _probe_bytes(config, shape, width)  # freed blocks are kept
    mapped = shape.folder_bytes + layers.mapped + file + round_bytes
    traffic = 0 if machines.number == 1 else mapped
    return StageNeed(
        "evaluate", 1, 1, 1, allocated, mapped, layers.gathered, 0, layers.files + file,
        traffic, layers.core_s + _METHODS * _figures_s(config, shape, width, rates), machines.cores,
        (layers.files + layers.read + file + traffic) * rates.write, layers.refused,
    )  # fmt: skip


def _train_nodes(config: Config, shape: GraphShape) -> int:
    return int(max(config.evaluate.train_fractions) * shape.labelled)


def _probe_bytes(config: Config, shape: GraphShape, width: int) -> int:
    """Rows of training and validation nodes, and the logits of a block of them with their softmax and error."""
    evaluate = config.evaluate
    lanes = evaluate.initialisations * len(evaluate.probe_weight_decay)
    rows = min(_BLOCK_ROWS, max(256, _LOGITS // max(1, evaluate.initialisations * shape.classes)))
    loaded = _train_nodes(config, shape) + int(evaluate.val_fraction * shape.labelled)
    logits = min(_LOGITS, min(rows, loaded) * shape.classes * lanes)
    columns = max(width, shape.num_features if shape.values is None else 0)
    return _FLOAT * (3 * loaded * columns + 4 * logits) + 16 * shape.num_nodes


def _figures_s(config: Config, shape: GraphShape, width: int, rates: Rates) -> float:
    """Core seconds of the probes and of the search for nearest nodes, of one method."""
    evaluate = config.evaluate
    lanes = evaluate.initialisations * len(evaluate.probe_weight_decay)
    rows = _train_nodes(config, shape) + int(evaluate.val_fraction * shape.labelled)
    probes = evaluate.random_splits * evaluate.probe_epochs * rows
    searched = min(_SEARCHED, shape.labelled * evaluate.sample)
    return (probes * 4.0 * width * shape.classes * lanes + 2.0 * width * searched) * rates.flop


def report_need(config: Config, shape: GraphShape, machines: Machines, rates: Rates) -> StageNeed:
    """What `report` takes."""
    width = embedding_width(config.model, shape)
    vectors = _FLOAT * shape.num_nodes * width
    held, file = (vectors, 0) if vectors <= machines.memory // _SHARE_OF_MEMORY else (0, vectors)
    on_map = min(shape.num_nodes, _MAP_NODES)
    allocated = REPORT + held + on_map * (2 * _FLOAT * width + _MAP_BYTES) + 24 * shape.num_nodes
    core_s = _REPORT_S + shape.entries * rates.gather + on_map * _MAP_S
    return StageNeed(
        "report", 1, 1, 1, allocated, shape.item * shape.entries + 16 * shape.num_nodes + file, 0, _REPORT_BYTES, file,
        0, core_s, 1, file * rates.write,
    )  # fmt: skip
