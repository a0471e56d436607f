"""Figures and pictures as one self-contained page, and methods side by side."""

from gscl_scale.report.comparison import COMPARISON, comparison_page, comparison_remarks, comparison_rows
from gscl_scale.report.findings import Findings
from gscl_scale.report.nodemap import NodeMap, kept_map
from gscl_scale.report.page import write_report
from gscl_scale.report.plots import PICTURES, plot_comparison, plot_consistency
from gscl_scale.report.versus import neighbour_overlap, write_comparison

__all__ = [
    "COMPARISON",
    "PICTURES",
    "Findings",
    "NodeMap",
    "comparison_page",
    "comparison_remarks",
    "comparison_rows",
    "kept_map",
    "neighbour_overlap",
    "plot_comparison",
    "plot_consistency",
    "write_comparison",
    "write_report",
]
