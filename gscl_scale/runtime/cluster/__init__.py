"""Tasks and trainings on a Ray cluster; ray is imported nowhere else, and only when it is asked for."""

from gscl_scale.runtime.cluster.runner import ClusterRunner, start_cluster_runner

__all__ = ["ClusterRunner", "start_cluster_runner"]
