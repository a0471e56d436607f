"""The quick start: a graph that every installation brings along."""

from pathlib import Path

from gscl_scale.cli.options import RunOption, Settings
from gscl_scale.cli.stages import run

CONFIG = Path(__file__).parents[1] / "config" / "demo.yaml"


def demo(settings: Settings = None, run_folder: RunOption = None) -> None:
    """Embed the import graph of your installed Python packages.

    Takes about a minute and downloads nothing. Open the report to see the map."""
    run(config_file=CONFIG, settings=settings, run_folder=run_folder)
    print(f"nearest     gscl-scale neighbors {run_folder or 'runs/demo'} --id torch.optim.adam")
