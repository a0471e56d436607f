"""Where graphs come from: the module of a source has `read`, and `size` where it knows its size before."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from gscl_scale.config.graphs import GraphConfig
from gscl_scale.errors import ConfigError
from gscl_scale.graph.draft import GraphDraft
from gscl_scale.graph.types import ColumnEncoding, SourceSize
from gscl_scale.runtime.runner import Runner


def read(
    config: GraphConfig,
    preferred: Sequence[ColumnEncoding] = (),
    scratch: Path | None = None,
    runner: Runner | None = None,
) -> GraphDraft:
    """Read the source that the graph section names; tables with the encodings of an earlier graph, if they fit.

    scratch   a folder for what does not fit the memory
    runner    reads the edges of tables and of mapped arrays by tasks, on machines that share this folder
    """
    if config.source == "memory":
        raise ConfigError("graph.source: expected a source that can be read from a file, got 'memory'")
    more: list[Any] = []
    if config.source == "tables":
        more = [preferred, scratch, runner]
    elif config.source in ("npz", "ogb"):
        more = [scratch, runner]
    draft: GraphDraft = _module(config).read(config, *more)
    return draft


def source_size(config: GraphConfig) -> SourceSize:
    """What the source knows of its size without being read."""
    if config.source == "memory" or not hasattr(_module(config), "size"):
        return SourceSize()
    size: SourceSize = _module(config).size(config)
    return size


def _module(config: GraphConfig) -> Any:
    return import_module(f"gscl_scale.graph.sources.{config.source}")
