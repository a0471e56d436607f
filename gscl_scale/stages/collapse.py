"""Collapsed embeddings: recognized at the first validation of a training, and the setting that cures this run.

The cures were measured on customers in groups with two columns, with a hundred columns of which two are huge, with
eight layers, and with high learning rates.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from gscl_scale.config.config import Config
from gscl_scale.config.graph_size import FEW
from gscl_scale.embed.vector_file import refuse_infinite
from gscl_scale.evaluate.collapse import flaw_of_spread, is_collapsed, is_flat
from gscl_scale.evaluate.schema import Spread
from gscl_scale.evaluate.similarity import spread
from gscl_scale.evaluate.vectors import width
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import SparseFeatures
from gscl_scale.model.inputs import Inputs, MappedFeatures
from gscl_scale.model.model import build_model
from gscl_scale.runtime.console import Console
from gscl_scale.stages.selection import Figure
from gscl_scale.train.loop import encode_all

_ROWS = 5_000
_SLOWER = 10


def warn_of_collapse(figure: Figure, config: Config, graph: Graph, inputs: Inputs, console: Console) -> Figure:
    """The figure of a training, which refuses infinite vectors and warns of collapsed ones at the first validation."""
    looked: list[bool] = []

    def measure(vectors: npt.NDArray[np.float32]) -> float:
        refuse_infinite(vectors)
        if not looked:
            looked.append(True)
            found, wide = spread(vectors, config.evaluate.seed), vectors.shape[1]
            if cure := cure_of(found, wide, config, graph, lambda: _untrained(config, graph, inputs)):
                flaw = flaw_of_spread(found, wide, graph.num_nodes)
                console.say(f"Warning: at the first validation {flaw}; {cure}")
                console.event("train", "collapsed", **found, cure=cure)
        return figure(vectors)

    return measure


def cure_of(found: Spread, wide: int, config: Config, graph: Graph, untrained: Callable[[], Spread | None]) -> str:
    """What to set where vectors of so many dimensions have collapsed, with the reason that was found; else "".

    If the encoder's vectors have collapsed with its initial weights, its features or its layers are the cause,
    otherwise the training is. Of vectors that use few of their dimensions only the former is known.
    """
    if not is_flat(found, wide, graph.num_nodes):
        return ""
    before = untrained()
    if before is None or is_flat(before, wide, graph.num_nodes):
        cure = _cure_of_features(config, graph)
        if not cure and before and config.model.layers > 1:
            cure = _advice(f"{config.model.layers} layers flatten features that differ", "model.layers=1")
        if cure:
            return cure
    rate = config.train.learning_rate / _SLOWER
    slower = _advice("it is the training that flattens the vectors", f"train.learning_rate={rate:g}")
    return slower if is_collapsed(found, graph.num_nodes) else ""


def _cure_of_features(config: Config, graph: Graph) -> str:
    """What to set where features are few, or flat as the encoder reads them; "" where neither is so."""
    joins = not graph.num_structural and not isinstance(graph.features, SparseFeatures)
    if joins and graph.num_features < FEW:
        columns = f"{graph.num_features} column{'s' * (graph.num_features > 1)}"
        return _advice(f"the features of a node are {columns} that tell few nodes apart", "graph.structure=always")
    rows = MappedFeatures.of(graph, config.model).rows(_sample(graph))
    if not is_flat(spread(rows, config.evaluate.seed), width(rows), graph.num_nodes):
        return ""
    reason = "the encoder reads features that hardly differ between nodes"
    if config.model.feature_scaling == "none":
        return _advice(reason, "model.feature_scaling=standard")
    return _advice(reason, "graph.structure=always") if joins else ""


def _advice(reason: str, setting: str) -> str:
    return f"{reason}: use a new run folder (--run) and add --set {setting}"


def _sample(graph: Graph) -> npt.NDArray[np.int64]:
    return np.unique(np.linspace(0, graph.num_nodes - 1, _ROWS).astype(np.int64))


def _untrained(config: Config, graph: Graph, inputs: Inputs) -> Spread | None:
    """The spread of the encoder's vectors with its initial weights; None where it reads neighbours from the disk."""
    if inputs.features is None:
        return None
    model = build_model(config.model, graph.feature_blocks, config.train.seed)
    return spread(encode_all(model.to(inputs.device), inputs), config.evaluate.seed)
