"""What methods are compared by: accuracy where there are labels, otherwise link prediction on held-out edges."""

from typing import Literal

from gscl_scale.config.evaluate import EvaluateConfig
from gscl_scale.errors import ConfigError, RunError
from gscl_scale.evaluate.link_schema import LinkMethod
from gscl_scale.evaluate.link_summary import LINK_TITLES
from gscl_scale.evaluate.schema import NMI, SIM_AT_5, Method, Metrics
from gscl_scale.evaluate.splits import why_no_splits
from gscl_scale.evaluate.summary import best_step
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.held_out_edges import HeldOutEdges
from gscl_scale.report.compare_methods import MethodFigures, MethodRow

Ground = Literal["probe", "links"]
OF_EDGES: tuple[LinkMethod, ...] = ("preferential_attachment", "adamic_adar")


def ground_of(graph: Graph, config: EvaluateConfig) -> Ground:
    """The section of the metrics that methods are compared by; ConfigError where there is none."""
    reason = why_no_splits(graph, config)
    if not reason:
        return "probe"
    if HeldOutEdges.of(graph) is None:
        raise ConfigError(
            f"compare: methods are compared by accuracy, and {reason}; bring labels with the graph, or compare by "
            "held-out edges: use a new run folder (--run) and add --set evaluate.held_out_edges=0.1"
        )
    return "links"


def refuse_unmeasured(metrics: Metrics, graph: Graph, config: EvaluateConfig) -> None:
    """RunError where a run lacks the figures that methods are compared by."""
    ground = ground_of(graph, config)
    if ground not in metrics:
        what = "accuracy" if ground == "probe" else "link prediction"
        raise RunError(f"there is no {what} to compare: {metrics['missing'][ground]}")


def figures_of(metrics: Metrics, vectors: Method) -> MethodFigures:
    """The figures of some vectors."""
    links: MethodFigures = {"links": metrics["links"][vectors]} if "links" in metrics else {}
    if "probe" not in metrics:
        return links
    accuracy = metrics["probe"][vectors]
    macro: MethodFigures = {"macro_mean": accuracy["macro_mean"]} if "macro_mean" in accuracy else {}
    return {
        **links,
        **macro,
        "val_mean": accuracy["val_mean"],
        "val_std": accuracy["val_std"],
        "test_mean": accuracy["test_mean"],
        "test_std": accuracy["test_std"],
        "best_step": best_step(metrics["probe"], vectors),
        "nmi": metrics["clusters"][NMI[vectors]] if "clusters" in metrics else None,
        "sim_at_5": metrics["search"][SIM_AT_5[vectors]] if "search" in metrics else None,
    }


def free_rows(reference: Metrics | None, metrics: Metrics | None, free: dict[Method, str]) -> list[MethodRow]:
    """The rows of what is measured beside a method: of edges by any, of vectors by the method of reference."""
    rows: list[MethodRow] = []
    if metrics and "probe" not in metrics and "links" in metrics:
        rows = [{"method": name, "title": LINK_TITLES[name], "links": metrics["links"][name]} for name in OF_EDGES]
    if reference:
        rows += [_row(name, title, figures_of(reference, name)) for name, title in free.items()]
    return rows


def _row(name: Method, title: str, figures: MethodFigures) -> MethodRow:
    row: MethodRow = {"method": name, "title": title}
    return {**row, **figures}
