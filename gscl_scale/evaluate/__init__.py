"""How good are the embeddings? Linear probe, clustering, search, ring similarity; statistics of a graph."""

from gscl_scale.evaluate.consistency import statistics, statistics_table
from gscl_scale.evaluate.figures import best_step, combine_repeats, figures_table
from gscl_scale.evaluate.kept import read_metrics, read_statistics
from gscl_scale.evaluate.linear_probe import ProbeResult, probe, probe_splits
from gscl_scale.evaluate.run import evaluate_run
from gscl_scale.evaluate.similarity import RingLists, ring_lists, ring_similarity
from gscl_scale.evaluate.splits import Split, make_splits, why_no_splits
from gscl_scale.evaluate.validation import (
    MOST_SPLITS,
    Selection,
    selection_of,
    training_splits,
    tune_splits,
    validation_accuracy,
    validation_splits,
)

__all__ = [
    "MOST_SPLITS",
    "ProbeResult",
    "RingLists",
    "Selection",
    "Split",
    "best_step",
    "combine_repeats",
    "evaluate_run",
    "figures_table",
    "make_splits",
    "probe",
    "probe_splits",
    "read_metrics",
    "read_statistics",
    "ring_lists",
    "ring_similarity",
    "selection_of",
    "statistics",
    "statistics_table",
    "training_splits",
    "tune_splits",
    "validation_accuracy",
    "validation_splits",
    "why_no_splits",
]
