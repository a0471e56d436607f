"""Figures and pictures as one self-contained page."""

from gscl_scale.report.page import write_report
from gscl_scale.report.plots import plot_consistency

__all__ = ["plot_consistency", "write_report"]
