"""torch-geometric is imported once, here, where the deprecations that its import triggers are not our errors."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import torch_geometric.nn  # noqa: F401
