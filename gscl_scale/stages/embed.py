"""Stage embed: embed all nodes with the frozen encoder."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.config.config import Config
from gscl_scale.embed.layers import EncodingSettings, encode_nodes
from gscl_scale.embed.rotation import best_rotation, common_nodes, read_rotation, write_rotation
from gscl_scale.embed.select import select_nodes
from gscl_scale.embed.store import (
    Embeddings,
    export,
    is_complete,
    layers_folder,
    refuse_foreign_folder,
    remove_scratch,
    take_rows,
    write_embeddings,
)
from gscl_scale.embed.structural_basis import StructuralBasis
from gscl_scale.graph.graph import Graph
from gscl_scale.model.encoder import Encoder
from gscl_scale.model.model import build_model
from gscl_scale.model.scaling import Scaling
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.stages.finished import checkpoints_of, embeddings_fingerprint
from gscl_scale.stages.on_cluster import embedding_runner
from gscl_scale.train.checkpoint import load_weights


def embed(
    config: Config,
    run: Run,
    console: Console,
    other: Path | None = None,
    out: Path | None = None,
    towards: Run | None = None,
) -> Path:
    """Embed all nodes of the run's graph, or of the graph in the folder `other`, with the frozen encoder.

    With `towards`, an earlier run, the embeddings are rotated into its space, and so are later ones of this run.
    Returns the folder of the embeddings: `out`, or the run's.
    """
    checkpoints, folder = checkpoints_of(config, run), out or run.embeddings
    trained_on = Graph.open(run.graph)
    graph = Graph.open(other) if other else trained_on
    blocks, columns = trained_on.feature_blocks, trained_on.feature_columns
    graph.refuse_other_features(blocks, columns, str(graph.folder), run.folder)
    graph.refuse_other_weights(trained_on.edge_weights is not None, str(graph.folder))
    fingerprint = embeddings_fingerprint(checkpoints, run, graph if other else None)
    if is_complete(folder, fingerprint, config.runtime.npy):
        remove_scratch(folder)
        return folder
    if out:
        refuse_foreign_folder(out)
    console.event("embed", "started")
    state, position = checkpoints.chosen()
    encoder, scaling = trained_encoder(config, trained_on, state, checkpoints.folder)
    if other and (basis := StructuralBasis.of(trained_on)):
        scaling = basis.scaling_for(graph, scaling, str(graph.folder), lambda text: console.say(f"Warning: {text}"))
    place = EncodingSettings.of(config.runtime, layers_folder(folder), fingerprint, "embed")
    with (
        embedding_runner(config, folder) as runner,
        encode_nodes(encoder, graph, scaling, place, console, runner) as vectors,
    ):
        if towards and not run.rotation.exists():
            _write_rotation(run, towards, graph, vectors)
            fingerprint = embeddings_fingerprint(checkpoints, run, graph if other else None)
        rotation = read_rotation(run.rotation)
        runtime = config.runtime
        write_embeddings(folder, graph, vectors, fingerprint, runtime.npy, rotation, runtime.embed_part_rows, runner)
    console.event("embed", "done", rows=vectors.shape[0], width=vectors.shape[1], epoch=position.epoch)
    return folder


def copy_embeddings(folder: Path, file: Path, ids: Path | None = None, id_column: str = "") -> None:
    """Copy embeddings into a .npy, .parquet or .csv file: all, or those of the ids in a file, in their order.

    id_column   the column of ids in the node table of the run, if it is known
    """
    embeddings = Embeddings(folder)
    export(embeddings, file, select_nodes(embeddings.ids, None, ids, str(folder), id_column))


def trained_encoder(config: Config, graph: Graph, state: dict[str, Any], where: Path) -> tuple[Encoder, Scaling]:
    """The encoder of a checkpoint, and the scaling of the features that it was trained on."""
    model = build_model(config.model, graph.feature_blocks, config.train.seed)
    load_weights(model, state.get("model"), where)
    return model.encoder, Scaling.of(graph.features, config.model.feature_scaling)


def _write_rotation(run: Run, towards: Run, graph: Graph, vectors: npt.NDArray[np.float32]) -> None:
    """Store the rotation of a run's embeddings into the space of an earlier run, if both have the same width."""
    common = common_nodes(Graph.open(towards.graph), graph)
    target = take_rows(towards.embeddings, common.earlier)
    if target.shape[1] == vectors.shape[1] and common.later.size:
        write_rotation(run.rotation, best_rotation(vectors[common.later], target))
