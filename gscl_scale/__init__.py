"""gscl-scale: self-supervised node embeddings for large graphs, by ranking the rings around each node."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gscl_scale.version import __version__ as __version__

__all__ = ["Config", "Graph", "GraphDraft", "GsclError", "NodeEmbedder", "NodeEmbeddings", "fit", "open_run"]

if TYPE_CHECKING:
    from gscl_scale.config.config import Config
    from gscl_scale.errors import GsclError
    from gscl_scale.estimator import NodeEmbedder, fit
    from gscl_scale.graph.draft import GraphDraft
    from gscl_scale.graph.graph import Graph
    from gscl_scale.node_embeddings import NodeEmbeddings, open_run

_HOMES = {
    "Config": "gscl_scale.config.config",
    "Graph": "gscl_scale.graph.graph",
    "GraphDraft": "gscl_scale.graph.draft",
    "GsclError": "gscl_scale.errors",
    "NodeEmbedder": "gscl_scale.estimator",
    "NodeEmbeddings": "gscl_scale.node_embeddings",
    "fit": "gscl_scale.estimator",
    "open_run": "gscl_scale.node_embeddings",
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use: precompute workers must not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'gscl_scale' has no attribute {name!r}")
    from gscl_scale.runtime.native_threads import thread_variables_while_loading

    with thread_variables_while_loading():  # torch reads them
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
