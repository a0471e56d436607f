"""The Python API: embed a graph in one call, or with a scikit-learn estimator that embeds new nodes too."""

import contextlib
import functools
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gscl_scale.config.config import Config
from gscl_scale.config.keywords import USUAL, Changes, Settings, changes_by, errors_in_python, merged, values_of
from gscl_scale.embed.layers import EncodingSettings, encode_nodes
from gscl_scale.embed.rotation import read_rotation
from gscl_scale.embed.store import read_embeddings
from gscl_scale.embed.structural_basis import StructuralBasis
from gscl_scale.embed.vector_file import rotated_blocks
from gscl_scale.errors import ConfigError
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.sources.given import Beside, GivenGraph, graph_settings, graph_to_come
from gscl_scale.graph.sources.node_features import bring_features
from gscl_scale.graph.sources.objects import given_graph
from gscl_scale.model.scaling import Scaling
from gscl_scale.node_embeddings import NodeEmbeddings, RunPlace
from gscl_scale.registry.locate import find_run
from gscl_scale.registry.places import refuse_version
from gscl_scale.run.folder import Run, encoder_needs
from gscl_scale.run.lock import lock_run
from gscl_scale.run.record import config_in
from gscl_scale.runtime.console import Console
from gscl_scale.stages.embed import trained_encoder
from gscl_scale.stages.finished import checkpoints_of
from gscl_scale.stages.fit import config_for, fit_run, graph_of, temporary_folder
from gscl_scale.storage.mirror import working_copy

Rows = npt.NDArray[np.float32]
_OWN = ("config", "run", "quiet")
_BESIDE = ("nodes", "labels", "features", "weights")


@errors_in_python()
def fit(
    graph: Any,
    config: Settings = None,
    run: Path | str | None = None,
    quiet: bool = True,
    *,
    nodes: Any = None,
    labels: Any = None,
    features: Any = None,
    weights: Any = None,
    epochs: int | None = None,
    hops: int | None = None,
    width: int | None = None,
    layers: int | None = None,
    batch_size: int | None = None,
    seed: int | None = None,
    device: str | None = None,
    **settings: Any,
) -> NodeEmbeddings:
    """Train on a graph and return the embeddings of its nodes.

    Parameters
    ----------
    graph
        A networkx or igraph graph, a scipy sparse adjacency, an edge_index [2, E] of numpy or torch, an edge table of
        pandas, polars or pyarrow, a Data or HeteroData of torch_geometric, a DGL graph, the path of an edge file or of
        the folder of a run, a Graph or a GraphDraft.
    config
        A Config, a dict of sections, or the path of a YAML file. Keywords win over it.
    run
        The run folder, or its URL. A finished run is read, not repeated. Without it all files are temporary.
    quiet
        Whether to show no progress.
    nodes
        A table of nodes beside one of edges.
    labels
        A class or a list of labels per node, in the order of the nodes, as a dict by id or as a pandas Series indexed
        by id; or the name of the column or attribute that has it. Training never reads it; `.metrics` does.
    features
        Rows of numbers [N, F], or names of columns or attributes. A graph without features gets those of its structure.
    weights
        A number per edge, or the name of a column or attribute. False leaves the weights of the graph out.
    epochs, hops, width, layers, batch_size, seed, device
        train.epochs, rings.hops, model.width, model.layers, train.batch_size, the seeds, and runtime.device.
    **settings
        Any other setting, as `section__key`.

    Returns
    -------
    NodeEmbeddings
        `np.asarray` of it is the array [N, d], rows in the order of the graph. If `train.repeats` > 1 it is the first.

    Examples
    --------
    >>> import networkx as nx
    >>> import gscl_scale
    >>> embeddings = gscl_scale.fit(nx.karate_club_graph(), epochs=2, width=8, train__learning_rate=0.01)
    >>> embeddings.shape
    (34, 136)
    """
    usual = NodeEmbedder(
        config, epochs=epochs, hops=hops, width=width, layers=layers, batch_size=batch_size, seed=seed, device=device
    )
    values = merged(usual._values(), changes_by(settings, "fit", (*_OWN, *_BESIDE)))
    given = given_graph(graph, Beside(nodes, labels, features, weights, graph_settings(values)))
    if run is not None:
        used, trained = _train(given, values, run, quiet)
        return NodeEmbeddings(used, trained, RunPlace(trained, str(run)), quiet)
    temporary = Path(tempfile.mkdtemp(prefix="gscl-scale-"))
    with contextlib.ExitStack() as on_error:
        on_error.callback(shutil.rmtree, temporary, ignore_errors=True)
        used, trained = _train(given, values, temporary / "run", quiet)
        embeddings = NodeEmbeddings(used, trained, RunPlace(trained, temporary=temporary), quiet)
        on_error.pop_all()  # from here on they go with the object
    return embeddings


def _train(given: GivenGraph, values: Mapping[str, Any], where: Path | str, quiet: bool) -> tuple[Config, Run]:
    refuse_version(str(where))
    with working_copy(where) as folder, lock_run(folder):
        return fit_run(given, values, folder, Console(quiet=quiet))


class NodeEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # untyped
    """A scikit-learn estimator: `fit` trains on a graph, `transform` embeds the nodes of any graph with equal columns.

    A fitted estimator holds the trained encoder, so it can be pickled and needs no folder. It works with `clone`,
    `Pipeline` and `ParameterGrid`.

    Parameters
    ----------
    config, run, quiet
        As for `fit`.
    epochs, hops, width, layers, batch_size, seed, device
        As for `fit`; None leaves the setting to `config`. Any other setting is set by `set_params(section__key=value)`.

    Attributes
    ----------
    config_
        The configuration of the training.
    n_features_in_
        The number of features per node, without those of the structure.
    feature_columns_
        The names of their columns, if they have names.
    weighted_
        Whether the edges have weights.

    Examples
    --------
    >>> import networkx as nx
    >>> from gscl_scale import NodeEmbedder
    >>> graph = nx.karate_club_graph()
    >>> embedder = NodeEmbedder(epochs=2, width=8).set_params(train__learning_rate=0.01).fit(graph)
    >>> graph.add_edge("Ann", "Bob")
    >>> embedder.transform(nx.karate_club_graph()).shape
    (34, 136)
    """

    def __init__(
        self,
        config: Settings = None,
        run: Path | str | None = None,
        quiet: bool = True,
        *,
        epochs: int | None = None,
        hops: int | None = None,
        width: int | None = None,
        layers: int | None = None,
        batch_size: int | None = None,
        seed: int | None = None,
        device: str | None = None,
        **unknown: Any,
    ) -> None:
        _refuse_settings(unknown, _OWN)  # no parameters, so that scikit-learn does not know them either
        self.config = config
        self.run = run
        self.quiet = quiet
        self.epochs = epochs
        self.hops = hops
        self.width = width
        self.layers = layers
        self.batch_size = batch_size
        self.seed = seed
        self.device = device

    @classmethod
    @errors_in_python()
    def load(cls, run: Path | str, quiet: bool = True) -> Self:
        """Load the encoder of a finished run.

        Parameters
        ----------
        run
            The run folder or its URL, or those of a registry, whose current version is loaded.
        quiet
            Whether to show no progress.

        Returns
        -------
        NodeEmbedder
            A fitted estimator.
        """
        found = find_run(str(run), "encoder", encoder_needs)
        one = cls(config := config_in(found.run.folder), quiet=quiet)
        one._take(config, found.run)
        return one

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters; with `deep` every setting too, as `section__key`."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep:
            with contextlib.suppress(ConfigError):  # `fit` says what is wrong; until then it can be shown and changed
                values = self._values()
                for section, keys in config_for(graph_to_come(values), values).dump().items():
                    params |= {f"{section}__{key}": value for key, value in keys.items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, and settings as `section__key`, which go into `config`; the last one that is set counts."""
        settings = {name: params.pop(name) for name in [name for name in params if "__" in name]}
        known = super().get_params(deep=False)
        unknown = dict.fromkeys(name for name in params if name not in known)
        changes = changes_by({**unknown, **settings}, "set_params", (*known,))
        base = params.get("config", self.config)
        config = _changed(base, changes) if changes else base
        replaced = {f"{section}.{key}" for section, keys in changes.items() for key in keys}
        for name in set(USUAL) - set(params):
            if replaced & set(USUAL[name]):
                params[name] = None
        for name, value in {**params, "config": config}.items():
            setattr(self, name, value)
        return self

    def _values(self) -> dict[str, Any]:
        """The settings as plain values: those of `config`, and of the parameters over them."""
        usual = {name: getattr(self, name) for name in USUAL}
        return merged(values_of(self.config), changes_by(usual, "NodeEmbedder"))

    def fit(self, graph: Any, y: Any = None, **beside: Any) -> Self:
        """Train on a graph.

        Parameters
        ----------
        graph
            In any form that the function `fit` takes.
        y
            Not used: training reads no labels. A pipeline passes it to its next step.
        **beside
            `nodes`, `labels`, `features` and `weights`, as for the function `fit`.

        Returns
        -------
        NodeEmbedder
            The estimator itself.
        """
        self.fit_transform(graph, y, **beside)
        return self

    @errors_in_python()
    def fit_transform(self, graph: Any, y: Any = None, **beside: Any) -> Rows:
        """Train on a graph and return its embeddings [N, d]; the parameters are those of `fit`."""
        with contextlib.ExitStack() as stack:
            where = stack.enter_context(temporary_folder()) / "run" if self.run is None else self.run
            values = self._values()
            config, run = _train(_given(graph, beside, values), values, where, self.quiet)
            self._take(config, run)
            return read_embeddings(run.embeddings)[1]

    @errors_in_python()
    def transform(self, graph: Any, **beside: Any) -> Rows:
        """Embed a graph with old nodes, new nodes or both.

        A node is embedded from its features and those of its neighbours in this graph, so the graph should hold the old
        nodes that new ones have edges to; and all old nodes if there are structural features, which differ in a part.

        Parameters
        ----------
        graph
            In any form that the function `fit` takes, with the columns of the graph of the training.
        **beside
            `nodes`, `features` and `weights`, as for the function `fit`.

        Returns
        -------
        array
            The embeddings [N, d], rows in the order of the graph; equal to those of `gscl-scale embed --graph`.
        """
        check_is_fitted(self)
        given = _given(graph, beside, {})
        config = config_for(given, self.config_.dump())
        with graph_of(given, config, self.encoding_) as opened:
            subject, cure = "transform: the graph", bring_features(self.encoding_, self.n_features_in_)
            opened.refuse_other_features(self.encoder_.features, self.feature_columns_, subject, cure=cure)
            opened.refuse_other_weights(self.weighted_, subject, "give weights=... as in the training")
            basis, warn = self.basis_, functools.partial(warnings.warn, stacklevel=6)  # the user's line
            scaling = basis.scaling_for(opened, self.scaling_, subject, warn) if basis else self.scaling_
            return self._embed(opened, scaling)

    def _embed(self, graph: Graph, scaling: Scaling) -> Rows:
        cpu = {} if torch.cuda.is_available() else {"device": "cpu"}  # trained on a machine with a GPU, perhaps
        runtime = self.config_.runtime.model_copy(update=cpu)
        with temporary_folder() as folder:
            place = EncodingSettings.of(runtime, folder / "layers", "transform", "transform")
            try:
                with encode_nodes(self.encoder_, graph, scaling, place, Console(quiet=self.quiet)) as vectors:
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
        self.encoding_ = trained_on.manifest.get("encoding", [])
        self.encoder_, self.scaling_ = trained_encoder(config, trained_on, state, checkpoints.folder)
        self.basis_ = StructuralBasis.of(trained_on)
        self.rotation_ = read_rotation(run.rotation)
        self._n_features_out = self.encoder_.width


def _changed(config: Settings, changes: Changes) -> Settings:
    """A configuration in the same form with changes over it; ConfigError if it is then none."""
    values = merged(values_of(config), changes)
    config_for(graph_to_come(values), values)  # refuses what is wrong
    return Config.parse(values) if isinstance(config, Config) else values


def _given(graph: Any, beside: Mapping[str, Any], values: Mapping[str, Any]) -> GivenGraph:
    """A graph and what is given beside it; other keywords are refused."""
    _refuse_settings([name for name in beside if name not in _BESIDE], _BESIDE)
    return given_graph(graph, Beside(**beside, settings=graph_settings(values)))


def _refuse_settings(names: Iterable[str], known: tuple[str, ...]) -> None:
    """Refuse keywords that are settings, which `set_params` takes, or nothing at all."""
    for name in names:
        changes_by({name: None}, "NodeEmbedder", known)
        raise ConfigError(f"NodeEmbedder: give {name} to set_params, as in NodeEmbedder().set_params({name}=...)")
