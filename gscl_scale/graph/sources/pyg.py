"""Data sets and Data objects of torch-geometric."""

import contextlib
import difflib
import inspect
import pickle
import socket
import urllib.error
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from gscl_scale.config.graphs import PygGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import GraphDraft
from gscl_scale.graph.edge_rows import Edges
from gscl_scale.graph.edge_weights import flaw_of_weights
from gscl_scale.graph.label_sets import is_indicator
from gscl_scale.graph.sources.pickles import only_arrays
from gscl_scale.graph.sources.splits import splits_from_masks
from gscl_scale.graph.types import SPLIT_CODES, SourceSize
from gscl_scale.io.validate import refuse_special
from gscl_scale.text import quoted, shortened

_TIMEOUT_S = 60
_OPTIONS: dict[str, str | bool] = {"split": "public", "geom_gcn_preprocess": True}  # as the literature evaluates them
_DAMAGE = (
    EOFError, pickle.UnpicklingError, zipfile.BadZipFile, zlib.error, LookupError, ValueError, RuntimeError, TypeError,
    AttributeError, OverflowError, MemoryError, ImportError,
)  # fmt: skip


def read(config: PygGraph) -> GraphDraft:
    """Read a data set by class and name; it is downloaded once."""
    class_name, _, name = config.dataset.partition("/")
    dataset_class = _class(class_name)
    options = _options(dataset_class, config, name)
    refuse_special(config.path)
    with _opening(config), only_arrays():
        dataset = dataset_class(str(_root(config.path, class_name, name)), **options)
        count, data = len(dataset), dataset[0]
    if count != 1:
        raise GraphError(f"{config.dataset} holds {count:,} graphs, expected one; choose a data set of one graph")
    draft = draft_from_data(data, config.dataset.replace("/", "-").lower())
    draft.origin = config.dataset
    return draft


def size(config: PygGraph) -> SourceSize:
    """The bytes of its files, which are in memory once it is read; unknown before it is downloaded."""
    class_name, _, name = config.dataset.partition("/")
    root = _root(config.path, class_name, name)
    place = root / name if name else root
    processed = [max(sizes) for folder in place.rglob("processed") if (sizes := _file_sizes(folder, "*.pt"))]
    raw = [sum(sizes) for folder in place.rglob("raw") if (sizes := _file_sizes(folder, "*"))]
    return SourceSize(fixed=min(processed or raw, default=0))  # of several versions the smallest: one of them is read


def _file_sizes(folder: Path, pattern: str) -> list[int]:
    return [path.stat().st_size for path in folder.glob(pattern) if path.is_file()]


def draft_from_data(data: Any, name: str) -> GraphDraft:
    """A draft of a `torch_geometric.data.Data`: edge_index or adj_t, and if present weights, x, y, masks and n_id."""
    if not isinstance(data, import_geometric("torch_geometric.data").Data):
        raise GraphError(
            f"{name}: expected a torch_geometric.data.Data with one kind of nodes, got {type(data).__name__}; "
            "data.to_homogeneous() makes one of several kinds"
        )
    notes: list[str] = []
    edges, rows = _edges(data, name, notes)
    num_nodes = _num_nodes(data, edges[:2], rows)
    return GraphDraft(
        name=name,
        origin=name,
        num_nodes=num_nodes,
        edges=[edges],
        features=_features(data),
        labels=_labels(data, notes),
        splits=_splits(data, name, num_nodes, notes),
        ids=_ids(data, name),
        notes=notes,
    )


def import_geometric(module: str) -> Any:
    """Import a module of torch-geometric, without the deprecations of torch that importing it reports."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return import_module(module)


def _class(class_name: str) -> Any:
    base = import_geometric("torch_geometric.data").Dataset
    datasets = vars(import_geometric("torch_geometric.datasets"))
    known = {
        name: value
        for name, value in datasets.items()
        if inspect.isclass(value) and issubclass(value, base) and "root" in inspect.signature(value).parameters
    }
    if class_name not in known:
        close = difflib.get_close_matches(class_name, known, n=3, cutoff=0.5)
        cure = f"did you mean {' or '.join(close)}?" if close else "see torch_geometric.datasets"
        raise GraphError(f"graph.dataset: torch-geometric has no data set {quoted(class_name)}; {cure}")
    return known[class_name]


def _options(dataset_class: Any, config: PygGraph, name: str) -> dict[str, str | bool]:
    parameters = inspect.signature(dataset_class).parameters
    options = {key: value for key, value in _OPTIONS.items() if key in parameters}
    if "is_undirected" in parameters:
        options["is_undirected"] = config.undirected
    if "name" in parameters:
        if not name and parameters["name"].default is inspect.Parameter.empty:
            raise GraphError(f"graph.dataset: {config.dataset} needs a name, such as Planetoid/Cora")
        return options | ({"name": name} if name else {})
    if name:
        raise GraphError(f"graph.dataset: {config.dataset.partition('/')[0]} takes no name; leave out '/{name}'")
    return options


def _root(path: Path, class_name: str, name: str) -> Path:
    """The folder itself if it already holds this data set, else a folder below it for each class."""
    data_set = path / name if name else path
    return path if (data_set / "raw").exists() or (data_set / "processed").exists() else path / class_name


@contextlib.contextmanager
def _opening(config: PygGraph) -> Iterator[None]:
    """Explain in one sentence why a data set cannot be opened; a silent network is given up after a minute."""
    from aiohttp import ClientError

    network = (urllib.error.URLError, ClientError, FileNotFoundError, ConnectionError, TimeoutError, socket.gaierror)
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_TIMEOUT_S)
    try:
        yield
    except network as error:
        raise GraphError(
            f"{config.dataset} is not in {config.path} and cannot be downloaded ({_reason(error)}); "
            "check its name and the network, or copy its raw files there"
        ) from None
    except AssertionError:
        raise GraphError(
            f"graph.dataset: torch-geometric refuses {config.dataset}; check the names that its class accepts"
        ) from None
    except (*_DAMAGE, OSError) as error:
        raise GraphError(
            f"{config.dataset} in {config.path} cannot be read: {_reason(error)}; check its name, delete its files to "
            "download them again, or export the graph as tables"
        ) from None
    finally:
        socket.setdefaulttimeout(before)


def _reason(error: BaseException) -> str:
    if "eights only load failed" in str(error):
        return "a pickle holds more than arrays"
    return shortened(error) or type(error).__name__


def _numpy(tensor: Any) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = tensor.detach().cpu().numpy()
    return array


def _is_torch_sparse(value: Any) -> bool:
    """Whether a value is a SparseTensor of the package torch-sparse."""
    return hasattr(value, "sparse_sizes") and hasattr(value, "coo")


def _edges(data: Any, name: str, notes: list[str]) -> tuple[Edges, int]:
    """The edges, and the number of nodes if adj_t gives it, else 0; the rows of adj_t are targets."""
    if data.get("edge_index") is not None:
        edge_index = data.edge_index
        edge_index = edge_index.as_tensor() if hasattr(edge_index, "as_tensor") else edge_index
        if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.dtype.is_floating_point:
            raise GraphError(
                f"{name}: edge_index is {edge_index.dtype} of shape {tuple(edge_index.shape)}, "
                "expected integers of shape [2, E]"
            )
        source, target = _numpy(edge_index)
        return (source, target, *_weights(data, name, source.size, notes)), 0
    adj_t = data.get("adj_t")
    if adj_t is None:
        raise GraphError(f"{name}: no edges; expected edge_index or adj_t in the Data object")
    if _is_torch_sparse(adj_t):
        target, source, values = adj_t.coo()
        return (_numpy(source), _numpy(target), *_unless_ones(values)), int(adj_t.sparse_sizes()[0])
    matrix = adj_t.to_sparse_coo().coalesce()
    target, source = _numpy(matrix.indices())
    return (source, target, *_unless_ones(matrix.values())), int(matrix.shape[0])


def _weights(data: Any, name: str, num_edges: int, notes: list[str]) -> list[npt.NDArray[Any]]:
    """edge_weight, or edge_attr if it is a column of positive fractions; else no weights."""
    for attribute in ("edge_weight", "edge_attr"):
        given = data.get(attribute)
        if given is None:
            continue
        weights = _numpy(given.float() if given.dtype.is_floating_point else given)
        if attribute == "edge_weight":
            if weights.shape not in ((num_edges,), (num_edges, 1)):
                raise GraphError(f"{name}: edge_weight has shape {weights.shape}, expected one for each edge")
            return [weights.reshape(-1)]
        column = weights.size == num_edges and weights.dtype.kind == "f"  # integers may be kinds of edges
        if column and not flaw_of_weights(weights.reshape(-1)):
            notes.append("edge_attr is a column of positive numbers and is read as edge weights (else delete it)")
            return [weights.reshape(-1)]
        notes.append("edge_attr is not used: expected one positive fraction per edge, or weights in edge_weight")
    return []


def _unless_ones(values: Any) -> list[npt.NDArray[Any]]:
    """The values of a sparse matrix as weights; a matrix of ones gives none."""
    return [] if values is None or bool((values == 1).all()) else [_numpy(values)]


def _num_nodes(data: Any, edges: Edges, rows: int) -> int:
    """The number that the object or its features give; else the largest that edges, labels, masks and ids name."""
    if (number := data.to_dict().get("num_nodes")) is not None:
        return int(number)
    if data.get("x") is not None:
        return int(data.get("x").size(0))
    columns = [data.get(name) for name in ("y", *(f"{part}_mask" for part in SPLIT_CODES), "n_id")]
    sizes = [int(column.shape[0]) for column in columns if column is not None and column.dim()]
    return max(rows, *sizes, *(int(ends.max()) + 1 if ends.size else 0 for ends in edges))


def _features(data: Any) -> npt.NDArray[Any] | sp.csr_array | None:
    x = data.get("x")
    if x is None:
        return None
    if _is_torch_sparse(x):
        return sp.csr_array(x.to_scipy("csr"))
    if str(x.layout) != "torch.strided":
        coo = x.detach().cpu().to_sparse_coo().coalesce()
        rows, columns = _numpy(coo.indices())
        return sp.csr_array((_numpy(coo.values()), (rows, columns)), shape=tuple(coo.shape))
    if str(x.dtype) in ("torch.bfloat16", "torch.float16"):
        x = x.float()
    array = _numpy(x)
    return array[:, None] if array.ndim == 1 else array


def _labels(data: Any, notes: list[str]) -> npt.NDArray[Any] | None:
    y = data.get("y")
    if y is None:
        return None
    labels = _numpy(y)
    if labels.ndim == 2 and labels.shape[1] > 1 and not is_indicator(labels):
        notes.append(
            f"y has {labels.shape[1]} values per node that are not 0 or 1: they are not used, expected one class per "
            "node, or 0 and 1 for each label"
        )
        return None
    return labels


def _splits(data: Any, name: str, num_nodes: int, notes: list[str]) -> dict[str, npt.NDArray[np.int8]]:
    tensors = {part: data.get(f"{part}_mask") for part in SPLIT_CODES}
    if missing := [f"{part}_mask" for part, mask in tensors.items() if mask is None]:
        if len(missing) < len(tensors):
            notes.append(f"no {' and no '.join(missing)}: the other masks are not used")
        return {}
    masks = {part: _numpy(mask).astype(bool) for part, mask in tensors.items()}
    widths = {mask.shape[1] for mask in masks.values() if mask.ndim == 2}
    if len(widths) > 1 or any(mask.ndim not in (1, 2) or mask.shape[0] != num_nodes for mask in masks.values()):
        shapes = ", ".join(f"{part} {mask.shape}" for part, mask in masks.items())
        raise GraphError(f"{name}: masks have shapes {shapes}; expected [{num_nodes}] or [{num_nodes}, S]")
    return splits_from_masks(masks, name)


def _ids(data: Any, name: str) -> pa.Array | None:
    n_id = data.get("n_id")
    if n_id is None:
        return None
    if n_id.dim() != 1 or n_id.dtype.is_floating_point:
        raise GraphError(f"{name}: n_id has shape {tuple(n_id.shape)}, expected one integer per node")
    return pa.array(_numpy(n_id))
