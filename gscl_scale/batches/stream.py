"""The batches of a run in their one order, from any step on, made in the background while steps run."""

import functools
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from gscl_scale import seeding
from gscl_scale.batches.collate import Batch, collate
from gscl_scale.batches.device_collate import DeviceRound
from gscl_scale.batches.neighbours import Draw
from gscl_scale.batches.sampled_subgraph import NeighbourSampler
from gscl_scale.batches.schedule import Schedule
from gscl_scale.batches.side_stream import Made, SideStream
from gscl_scale.config.loss import LossConfig
from gscl_scale.config.sections import RingsConfig, TrainConfig
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import SparseFeatures
from gscl_scale.rings.priorities import Priorities
from gscl_scale.rings.sample import RingSample
from gscl_scale.shards.reader import RoundReader, RoundSource
from gscl_scale.text import format_bytes

Nodes = npt.NDArray[np.int64]
ReadFeatures = Callable[[Nodes], npt.NDArray[np.float32] | SparseFeatures]

_AHEAD = 2  # micro-batches that are made while the caller works on one


def held_out(graph: Graph, share: float, seed: int) -> npt.NDArray[np.bool_]:
    """Which nodes [N] are never anchors of a training: decided by a node's own id, whatever other nodes there are."""
    if not share:
        return np.zeros(graph.num_nodes, np.bool_)
    draws = graph.draws(seeding.key("held out", seed))
    out: npt.NDArray[np.bool_] = draws < -np.log1p(-share)
    return out


def epoch_order(num_anchors: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """The anchors of an epoch in the order in which they are used: a function of (seed, epoch) alone."""
    return seeding.generator("order", seed, epoch).permutation(num_anchors)


@dataclass(frozen=True)
class Share:
    """The share of worker `rank` of `size` in every batch."""

    rank: int = 0
    size: int = 1

    def micro_batch(self, number: int, of: int) -> "Share":
        """One of so many micro-batches of our share."""
        return Share(self.rank * of + number, self.size * of)

    def of(self, anchors: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Our anchors of a batch: shares are of equal size, in the order of the batch."""
        bounds = anchors.size * np.arange(self.rank, self.rank + 2) // self.size
        return anchors[bounds[0] : bounds[1]]


class AnchorSamples(Protocol):
    """Where the samples of anchors come from."""

    def decided(self, anchors: Nodes) -> npt.NDArray[np.float64]:
        """As `RoundReader.decided`."""
        ...

    def take(self, anchors: Nodes) -> RingSample:
        """As `RoundReader.take`."""
        ...


KeepSamples = Callable[[RoundReader, Nodes | None], AnchorSamples]  # of the anchors of a training, None: of all


@dataclass(frozen=True)
class _OpenRound:
    """A round by its number, where batches read it, its draw of neighbours, and its copy on the device, if any."""

    number: int
    priorities: Priorities | None
    samples: AnchorSamples
    draw: Draw | None
    there: DeviceRound | None


@dataclass(frozen=True)
class DeviceRoom:
    """A device on which batches are made, where a round takes at most so many bytes; `tell` says which way is taken."""

    device: torch.device
    room: int
    tell: Callable[[str], None]


class BatchStream:
    """Batches by their global step; only the current round is open.

    It is mapped, not read; or it lies on a device where there is room for it.
    """

    def __init__(
        self,
        samples: RoundSource,
        num_nodes: int,
        rings: RingsConfig,
        train: TrainConfig,
        loss: LossConfig,
        sampler: NeighbourSampler | None = None,
        share: Share | None = None,
        read_features: ReadFeatures | None = None,
        anchors: Nodes | None = None,
        device: DeviceRoom | None = None,
        keep_samples: KeepSamples = RoundReader.in_any_order,
    ) -> None:
        self._anchors, self._num_anchors = anchors, num_nodes if anchors is None else anchors.size
        self.schedule = Schedule(self._num_anchors, train.batch_size)
        self.num_micro_batches = train.accumulate
        self._samples, self._num_nodes = samples, num_nodes
        self._rings, self._train, self._loss = rings, train, loss
        self._sampler, self._share, self._read_features = sampler, share or Share(), read_features
        self._device, self._told, self._keep_samples = device, False, keep_samples
        self._open: _OpenRound | None = None
        self._order: tuple[int, npt.NDArray[np.int64]] | None = None
        self._making = threading.Lock()

    def batch(self, step: int, micro_batch: int = 0) -> Batch:
        """A micro-batch of our share of a step's batch; steps are counted from 0 over all epochs."""
        epoch, seen = self.schedule.at(step)
        with self._making:
            opened = self._round(epoch)
            samples, settings = opened.samples, (self._rings, self._train, self._loss, epoch, step)
            anchors = self._epoch(epoch)[seen : seen + self._train.batch_size]
            own = self._share.micro_batch(micro_batch, self.num_micro_batches).of(anchors)
            if opened.there is None:
                decided = samples.decided(anchors)
                batch = collate(samples.take(own), decided, opened.priorities, self._num_nodes, *settings)
            else:
                all_encoded = self._sampler is None
                batch = opened.there.collate(own, opened.there.decided[anchors], *settings, all_encoded)
            if self._sampler is None:
                return batch
            assert batch.nodes is not None  # distinct ones, since not all are encoded
            nodes = batch.nodes.cpu().numpy() if isinstance(batch.nodes, torch.Tensor) else batch.nodes
            subgraph = self._sampler.sample(nodes, opened.draw)
            if self._read_features is None or subgraph.inputs is None:
                return replace(batch, subgraph=subgraph)
            return replace(batch, subgraph=subgraph, features=self._read_features(subgraph.inputs))

    def batches(self, first: int, end: int) -> Iterator[Batch]:
        """The micro-batches of the steps first..end; two of them are made while the caller works on one."""
        with ThreadPoolExecutor(1, thread_name_prefix="batches") as pool:
            waiting: deque[Future[Made]] = deque()
            queue = SideStream(self._device.device if self._device else None)
            try:
                for step, number in itertools.product(range(first, end), range(self.num_micro_batches)):
                    waiting.append(pool.submit(queue.make, functools.partial(self.batch, step, number)))
                    if len(waiting) > _AHEAD:
                        yield waiting.popleft().result().here()
                while waiting:
                    yield waiting.popleft().result().here()
            finally:
                # of several processes each makes as many as the others, for they may exchange rows
                pool.shutdown(wait=True, cancel_futures=self._share.size == 1)

    def _round(self, epoch: int) -> _OpenRound:
        number = epoch % self._samples.num_rounds
        if self._open is None or self._open.number != number:
            self._open = None  # before the next one is copied to the device
            reader = self._samples.of_epoch(epoch)
            reader.check_nodes(self._num_nodes)
            draw = None
            if self._sampler is not None and self._sampler.samples:
                assert reader.priorities is not None
                draw = Draw(reader.priorities, reader.priorities.rank(), reader.weights)
            there = self._there(reader)
            samples = self._keep_samples(reader, self._anchors) if there is None else reader
            self._open = _OpenRound(number, reader.priorities, samples, draw, there)
        return self._open

    def _there(self, reader: RoundReader) -> DeviceRound | None:
        """A round on the device, if there is one with room for it."""
        if self._device is None:
            return None
        need, room = DeviceRound.bytes_of(reader), self._device.room
        if not self._told:
            where = "on the GPU" if need <= room else "on the CPU"
            self._device.tell(
                f"Batches are made {where}: a round takes {format_bytes(need)}, there is room for {format_bytes(room)}."
            )
            self._told = True
        return DeviceRound.of(reader, self._device.device) if need <= room else None

    def _epoch(self, epoch: int) -> npt.NDArray[np.int64]:
        if self._order is None or self._order[0] != epoch:
            order = epoch_order(self._num_anchors, self._train.seed, epoch)
            self._order = (epoch, order if self._anchors is None else self._anchors[order])
        return self._order[1]
