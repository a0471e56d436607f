"""The Python API: embed a graph in one call, or with a scikit-learn estimator that embeds new nodes too."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gscl_scale.config.config import Config
from gscl_scale.embed.layers import EncodingSettings, encode_nodes
from gscl_scale.embed.rotation import read_rotation
from gscl_scale.embed.store import read_embeddings, rotated_blocks
from gscl_scale.embed.structural_basis import StructuralBasis
from gscl_scale.errors import FolderError, GraphError
from gscl_scale.graph.draft import Draft, write_graph
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.held_out_edges import ALL_STAY, HeldOutEdges, HoldOut
from gscl_scale.io.atomic import publish_folder
from gscl_scale.registry.locate import find_run
from gscl_scale.run.folder import Run
from gscl_scale.run.lock import lock_run
from gscl_scale.run.record import claim, config_in, open_run, repeat_config
from gscl_scale.runtime.console import Console
from gscl_scale.stages.embed import embed, trained_encoder
from gscl_scale.stages.finished import checkpoints_of
from gscl_scale.stages.ingest import ingest
from gscl_scale.stages.precompute import precompute
from gscl_scale.stages.train import train
from gscl_scale.storage.mirror import working_copy

if TYPE_CHECKING:
    from torch_geometric.data import Data

Rows = npt.NDArray[np.float32]
Settings = Config | dict[str, Any] | Path | str | None


def fit(
    graph: "Data | Graph | Draft",
    config: Settings = None,
    run: Path | str | None = None,
    quiet: bool = True,
) -> Rows:
    """Embeddings [N, d] of a graph, rows in the order of its nodes.

    `graph` is a torch_geometric Data, a Graph or a Draft; `config` is a Config, plain values, or a YAML file. `run` is
    the run folder: a finished run is read, not repeated. Without `run` all files are temporary. If `train.repeats` > 1,
    `fit` returns the embeddings of the first repeat.

    >>> embeddings = fit(data, {"rings": {"hops": 1}, "train": {"epochs": 50}})   # doctest: +SKIP
    """
    return NodeEmbedder(config, run, quiet).fit_transform(graph)


class NodeEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator: `fit` trains on a graph, `transform` embeds the nodes of any graph with equal columns.

    Parameters are those of the function `fit`. A fitted estimator holds the trained encoder, so it can be pickled and
    needs no folder. `config_` is its configuration, `n_features_in_` the number of features per node
    (without those of the structure), `feature_columns_` the names of their columns, if they have names, and `weighted_`
    whether the edges have weights.

    >>> embedder = NodeEmbedder({"train": {"epochs": 50}}).fit(today)       # doctest: +SKIP
    >>> vectors = embedder.transform(tomorrow)                               # doctest: +SKIP
    """

    def __init__(
        self,
        config: Settings = None,
        run: Path | str | None = None,
        quiet: bool = True,
    ) -> None:
        self.config = config
        self.run = run
        self.quiet = quiet

    @classmethod
    def load(cls, run: Path | str, quiet: bool = True) -> Self:
        """Load the encoder of a finished run from its folder or URL, or the current version of a registry."""
        found = find_run(str(run), "encoder", _is_needed)
        config = config_in(found.run.folder)
        one = cls(config, quiet=quiet)
        one._take(config, found.run)
        return one

    def fit(self, graph: "Data | Graph | Draft", y: Any = None) -> Self:
        """Train on a graph; labels are never read."""
        self.fit_transform(graph)
        return self

    def fit_transform(self, graph: "Data | Graph | Draft", y: Any = None, **_: Any) -> Rows:
        """Train on a graph and return its embeddings [N, d]."""
        settings, console = _as_config(self.config), Console(quiet=self.quiet)
        with contextlib.ExitStack() as stack:
            where = stack.enter_context(_temporary()) / "run" if self.run is None else self.run
            folder = stack.enter_context(working_copy(where))
            stack.enter_context(lock_run(folder))
            trained, one = _train(graph, settings, folder, console)
            self._take(trained, one)
            return read_embeddings(one.embeddings)[1]

    def transform(self, graph: "Data | Graph | Draft") -> Rows:
        """Embeddings [N, d] of a graph with old nodes, new nodes or both, rows in the order of its nodes.

        They equal those of `gscl-scale embed --graph`. A node is embedded from its features and those of its neighbours
        in this graph, so the graph should hold the old nodes that new ones have edges to.
        """
        check_is_fitted(self)
        with _temporary() as folder:
            opened = _opened(graph, self.config_, folder)
            opened.refuse_other_features(
                self.n_features_in_, self.encoder_.structural, self.feature_columns_, "transform: the graph"
            )
            opened.refuse_other_weights(self.weighted_, "transform: the graph")
            runtime = self.config_.runtime
            if not torch.cuda.is_available():  # trained on a machine with a GPU, perhaps
                runtime = runtime.model_copy(update={"device": "cpu"})
            scaling = self.basis_.scaling_for(opened, self.scaling_) if self.basis_ else self.scaling_
            place = EncodingSettings.of(runtime, folder / "layers", "transform", "transform")
            console = Console(quiet=self.quiet)
            try:
                with encode_nodes(self.encoder_, opened, scaling, place, console) as vectors:
                    return np.concatenate([block for _, block in rotated_blocks(vectors, self.rotation_)])
            finally:
                self.encoder_.to("cpu")  # can be pickled for any machine

    def _take(self, config: Config, run: Run) -> None:
        """Take over the encoder of a finished run."""
        trained_on = Graph.open(run.graph)
        self.weighted_ = trained_on.edge_weights is not None
        checkpoints = checkpoints_of(config, run)
        state, _ = checkpoints.chosen()
        self.config_ = config
        self.n_features_in_, self.feature_columns_ = trained_on.num_own, trained_on.feature_columns
        self.encoder_, self.scaling_ = trained_encoder(config, trained_on, state, checkpoints.folder)
        self.basis_ = StructuralBasis.of(trained_on)
        self.rotation_ = read_rotation(run.rotation)
        self._n_features_out = self.encoder_.width


_NEEDED = ("run.json", "rotation.npy", "start.pt", "samples/manifest.json")


def _is_needed(name: str) -> bool:
    """Whether an encoder needs a file of a run; the rest may be hundreds of times as large."""
    return name.startswith(("graph/", "checkpoints/")) or name in _NEEDED


def _train(graph: "Data | Graph | Draft", config: Config, folder: Path, console: Console) -> tuple[Config, Run]:
    """Train a run, or its first repeat."""
    one = open_run(config, folder)
    if (one.graph / "manifest.json").exists():
        _refuse_other_graph(graph, config, one)
    elif isinstance(graph, Graph):
        _refuse_without_held_out(graph, config)
        with publish_folder(one.graph) as copy:
            shutil.copytree(graph.folder, copy, dirs_exist_ok=True)
    else:
        ingest(config, one, console, draft=_draft_of(graph))
    if config.train.repeats > 1:
        config = repeat_config(config, 0)
        one = claim(config, one.repeat(config.train.seed))
    console = console.with_log(one.log)
    precompute(config, one, console)
    train(config, one, console)
    embed(config, one, console)
    return config, one


def _refuse_other_graph(graph: "Data | Graph | Draft", config: Config, run: Run) -> None:
    """Refuse a graph other than the one that the run was made from."""
    with _temporary() as folder:
        opened = _opened(graph, config, folder, HoldOut.of(config.evaluate))
        if opened.fingerprint != Graph.open(run.graph).fingerprint:
            raise FolderError(f"{run.folder} was made from another graph; choose another folder, or delete it")


def _refuse_without_held_out(graph: Graph, config: Config) -> None:
    """Refuse a finished graph with all edges where some are to be held out: its features may encode them."""
    if config.evaluate.held_out_edges and HeldOutEdges.of(graph) is None:
        raise GraphError(
            f"evaluate.held_out_edges: {graph.folder} was ingested with all edges; ingest it with this config, or set "
            "it to 0"
        )


def _opened(graph: "Data | Graph | Draft", config: Config, folder: Path, asked: HoldOut = ALL_STAY) -> Graph:
    """A graph as it is, or written into a folder."""
    return graph if isinstance(graph, Graph) else write_graph(_draft_of(graph), config.graph, folder / "graph", asked)


@contextlib.contextmanager
def _temporary() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gscl-scale-") as folder:
        yield Path(folder)


def _draft_of(data: "Data | Draft") -> Draft:
    if isinstance(data, Draft):
        return data
    from gscl_scale.graph.sources.pyg import draft_from_data

    if not hasattr(data, "edge_index") and not hasattr(data, "adj_t"):
        raise GraphError(
            f"expected a torch_geometric Data, a Graph or a Draft, got {type(data).__name__}; "
            "see 'From Python' in the README"
        )
    return draft_from_data(data, "data")


def _as_config(config: Settings) -> Config:
    if isinstance(config, Config):
        return config
    if isinstance(config, (str, Path)):
        return Config.load(Path(config))
    settings = dict(config or {})
    return Config.parse({**settings, "graph": {"source": "memory", **settings.get("graph", {})}})
