"""The needs of all stages of a run, in their order."""

from gscl_scale.config.config import Config
from gscl_scale.planning.embedding import embedding_need
from gscl_scale.planning.evaluation import evaluation_need, report_need
from gscl_scale.planning.graph_shape import GraphShape
from gscl_scale.planning.ingest import ingest_need
from gscl_scale.planning.need import Machines, StageNeed
from gscl_scale.planning.rates import Rates
from gscl_scale.planning.sampling import sampling_need
from gscl_scale.planning.training import training_need


def stage_needs(config: Config, shape: GraphShape, machines: Machines, rates: Rates) -> list[StageNeed]:
    """What each stage takes on these machines."""
    setting = config, shape, machines, rates
    sampling, round_bytes = [], 0
    if config.train.reads_samples:
        sampling = [sampling_need(*setting)]
        round_bytes = sampling[0].disk
    return [
        ingest_need(*setting), *sampling, training_need(*setting, round_bytes), embedding_need(*setting),
        evaluation_need(*setting, round_bytes), report_need(*setting),
    ]  # fmt: skip
