"""What these tests take from the package beside its commands: when modules move, change the imports here."""

from pathlib import Path

import click
import numpy as np
import typer

from gscl_scale.batches.sampled_subgraph import NeighbourSampler
from gscl_scale.batches.stream import BatchStream, held_out
from gscl_scale.cli.main import app
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.graph.graph import Graph
from gscl_scale.run.record import config_in
from gscl_scale.shards.reader import Samples


def verbs() -> dict[str, list[str]]:
    """Every verb with the names of its arguments and options, without their help texts."""
    return dict(sorted(_verbs(typer.main.get_command(app), "")))


def _verbs(group: click.Command, prefix: str):
    for name, one in getattr(group, "commands", {}).items():
        if hasattr(one, "commands"):
            yield from _verbs(one, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", [_names(parameter) for parameter in one.params]


def _names(parameter: click.Parameter) -> str:
    if parameter.param_type_name == "argument":
        return f"{parameter.name.upper()}{'' if parameter.required else '?'}"
    return " ".join([*parameter.opts, *parameter.secondary_opts]) + " (required)" * parameter.required


def batches(run: Path):
    """Every micro-batch of a run in order, as (epoch, arrays by name); None stands for all nodes."""
    config, graph = config_in(run), Graph.open(run / "graph")
    sampler = NeighbourSampler(
        NormalisedAdjacency.of(graph, *config.model.messages()), config.model.layers, config.model.fanouts()
    )
    share = config.train.held_out
    anchors = np.flatnonzero(~held_out(graph, share, config.train.seed)) if share else None
    stream = BatchStream(
        Samples.open(run / "samples"),
        graph.num_nodes,
        config.rings,
        config.train,
        config.loss,
        sampler,
        anchors=anchors,
    )
    for step in range(config.train.epochs * stream.schedule.steps_per_epoch):
        for micro_batch in range(stream.num_micro_batches):
            yield step // stream.schedule.steps_per_epoch, _arrays(stream.batch(step, micro_batch))


def _arrays(batch):
    pairs, subgraph = batch.pairs, batch.subgraph
    layers = [layer for layer in subgraph.blocks if layer is not None]
    messages = [layer.messages for layer in layers]
    return {
        "anchors": [batch.nodes[batch.anchors]],
        "nodes": [batch.nodes],
        "pairs": [pairs.indptr, pairs.indices, pairs.back_indptr, pairs.back_indices, pairs.order],
        "present": batch.present,
        "candidates": [batch.candidates, batch.decided],
        "sampled subgraph": [
            subgraph.inputs, subgraph.rows, *(part for layer in layers for part in (layer.nodes, layer.own)),
            *(part for rows in messages for part in (rows.indptr, rows.indices)),
        ],
        "message weights": [rows.values for rows in messages],
        "log weights": [] if batch.log_weight is None else [batch.log_weight],
    }  # fmt: skip
