"""Where graphs come from: each source reads its input into a Draft."""

from importlib import import_module

from gscl_scale.config.graphs import GraphConfig
from gscl_scale.errors import ConfigError
from gscl_scale.graph.draft import Draft


def read(config: GraphConfig) -> Draft:
    """Read the source that the graph section names."""
    if config.source == "memory":
        raise ConfigError("graph.source: expected a source that can be read from a file, got 'memory'")
    draft: Draft = import_module(f"gscl_scale.graph.sources.{config.source}").read(config)
    return draft
