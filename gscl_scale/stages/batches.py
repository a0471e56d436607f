"""Where the batches of a training come from: the run folder, or the processes that keep its parts among them."""

import contextlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from gscl_scale.batches.neighbours import Neighbours
from gscl_scale.batches.sampled_subgraph import NeighbourSampler
from gscl_scale.batches.stream import (
    AnchorSamples,
    BatchStream,
    DeviceRoom,
    KeepSamples,
    ReadFeatures,
    Share,
    held_out,
)
from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.graph.graph import Graph
from gscl_scale.machine import available_memory
from gscl_scale.model.inputs import Inputs, MappedFeatures
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.settings import MemoryNeed
from gscl_scale.shards.reader import RoundReader, RoundSource
from gscl_scale.text import format_bytes
from gscl_scale.train.device_plan import DevicePlan
from gscl_scale.train.exchange import Exchange
from gscl_scale.train.owned_features import OwnedFeatures, features_bytes, frequent_nodes, owned_bytes
from gscl_scale.train.owned_neighbours import OwnedNeighbours, owned_rows_bytes
from gscl_scale.train.owned_samples import OwnedSamples
from gscl_scale.train.process_group import World

_PROGRAM = 300 << 20  # bytes of torch and the interpreter
_ENTRY = 8  # bytes of an entry of the adjacency: its column and its weight
_MOST_FREE = 0.6  # of the free memory, for samples: what batches and steps take is not known before


def make_batches(
    config: Config, graph: Graph, inputs: Inputs, rounds: RoundSource, world: World, console: Console,
    plan: DevicePlan | None, stack: contextlib.ExitStack,
) -> BatchStream:  # fmt: skip
    """The batches of this process in a training."""
    sampler, owners = None, _Owners(config, graph, world, console, stack)
    if plan is not None:
        console.say(plan.reason)
        console.event("train", "device plan", whole_graph=plan.whole, room_for_rounds=plan.room)
    read = owners.read_features() if inputs.features is None else None
    if plan is None or not plan.whole:
        if config.train.cuda_graphs is True:
            reason = "this process has no GPU" if plan is None else plan.reason.rstrip(".")
            raise ConfigError(f"train.cuda_graphs: needs steps over the whole graph ({reason}); set it to false")
        messages, fanouts = NormalisedAdjacency.of(graph, *config.model.messages()), config.model.fanouts()
        neighbours = owners.neighbours(messages, max(fanouts)) if fanouts else None
        sampler = NeighbourSampler(messages, config.model.layers, fanouts, inputs.propagated is not None, neighbours)
    room = None if plan is None else DeviceRoom(inputs.device, 0 if owners.of_edges else plan.room, console.say)
    return BatchStream(
        rounds, graph.num_nodes, config.rings, config.train, config.loss,
        sampler, Share(world.rank, world.size), read, anchors_of(config, graph), room, owners.keep_samples(),
    )  # fmt: skip


@dataclass(frozen=True)
class _Owners:
    """The processes of a training, where they keep features, edges or samples among them."""

    config: Config
    graph: Graph
    world: World
    console: Console
    stack: contextlib.ExitStack

    @cached_property
    def _exchange(self) -> Exchange:
        return Exchange(self.world)

    def read_features(self) -> ReadFeatures:
        """How batches read rows of features."""
        graph, config, runtime = self.graph, self.config, self.config.runtime
        if runtime.features == "mapped" or self.world.size == 1:
            return MappedFeatures.of(graph, config.model).rows
        need = owned_bytes(graph, runtime.frequent_memory, self.world.size)
        self._refuse("features", need, "start more processes, lower runtime.frequent_gb, or set it to mapped")
        exchange, frequent = self._exchange, frequent_nodes(graph, runtime.frequent_memory)
        owned = self.world.together(lambda: OwnedFeatures(graph, config.model.feature_scaling, exchange))
        owned.keep(frequent)
        self.console.say(
            f"Each of {self.world.size} processes keeps {format_bytes(owned.nbytes)} of features in memory: its share "
            f"of the rows, and those of the {frequent.size:,} nodes with the most edges."
        )
        self.stack.callback(lambda: self.console.event("train", "features", **vars(owned.counts)))
        return owned.rows

    def neighbours(self, messages: NormalisedAdjacency, fanout: int) -> Neighbours | None:
        """Who draws the neighbours of nodes; None: this process reads them in the graph folder."""
        if not self.of_edges:
            return None
        self._refuse(
            "edges", owned_rows_bytes(self.graph, self.world.size), "start more processes, or set it to mapped"
        )
        exchange = self._exchange
        owned = self.world.together(lambda: OwnedNeighbours(messages, fanout, exchange))
        self.console.say(
            f"Each of {self.world.size} processes keeps {format_bytes(owned.nbytes)} of edges in memory, "
            "and draws the neighbours of these nodes for all."
        )
        return owned

    def keep_samples(self) -> KeepSamples:
        """Where batches read the samples of anchors, once a round is open."""
        if not self.of_edges:
            return RoundReader.in_any_order
        exchange, free = self._exchange, available_memory()  # now: before the first round is read

        def keep(reader: RoundReader, anchors: npt.NDArray[np.int64] | None) -> AnchorSamples:
            anchors = np.arange(self.graph.num_nodes) if anchors is None else anchors
            share = int(reader.bytes_of(anchors)) // self.world.size
            if not reader.keeps(anchors) and exchange.agree(share <= _MOST_FREE * free):
                return OwnedSamples(reader, anchors, exchange)
            return reader.in_any_order(anchors)

        return keep

    @property
    def of_edges(self) -> bool:
        """Whether they keep edges and samples."""
        return self.config.runtime.edges == "owned" and self.world.size > 1

    def _refuse(self, key: str, need: int, cure: str) -> None:
        if need > (free := available_memory()):
            raise ConfigError(
                f"runtime.{key}: owned keeps {format_bytes(need)} of {key} in each of {self.world.size} processes, "
                f"and {format_bytes(free)} are available here; {cure}"
            )


def anchors_of(config: Config, graph: Graph) -> npt.NDArray[np.int64] | None:
    """The nodes to train on; None for all."""
    if not config.train.held_out:
        return None
    anchors = np.flatnonzero(~held_out(graph, config.train.held_out, config.train.seed))
    if not anchors.size:
        raise ConfigError(f"train.held_out: {config.train.held_out:g} leaves no node to train on; set a lower share")
    return anchors


def memory_of_process(graph: Graph, config: Config) -> MemoryNeed:
    """What a training process takes at least: the program, and the features and edges that it keeps."""
    runtime = config.runtime
    if config.model.propagation != "sampled":
        return MemoryNeed(each=_PROGRAM + features_bytes(graph) + graph.indices.size * _ENTRY)
    processes, need = runtime.for_training().workers[0], _PROGRAM
    if runtime.features == "owned":
        need += owned_bytes(graph, runtime.frequent_memory, processes)
    if runtime.edges == "owned":
        need += owned_rows_bytes(graph, processes)
    return MemoryNeed(each=need)
