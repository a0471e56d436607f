"""`--overwrite`: removes what other settings or inputs have made; a graph only once the new one was read."""

from pathlib import Path

from gscl_scale.config.config import Config
from gscl_scale.io.atomic import scratch_folder
from gscl_scale.run.folder import Run
from gscl_scale.run.overwrite import other_results, remove_results
from gscl_scale.run.record import claim
from gscl_scale.runtime.console import Console
from gscl_scale.stages.ingest import ingest


def overwrite(config: Config, folder: Path, console: Console) -> list[Path]:
    """Remove the other results of a run, and return them.

    Where the graph is one of them, the new graph takes its place: nothing is removed if it cannot be read.
    """
    found, run = other_results(config, folder), Run.at(folder)
    if run.graph not in found:
        remove_results(found)
        return found
    with scratch_folder(folder.absolute(), "overwrite") as place:
        new = claim(config, Run.at(place))
        try:
            ingest(config, new, console)
        finally:
            _append(new.log, run.log)
        remove_results(found)
        (place / "run.json").replace(folder / "run.json")
        new.graph.rename(run.graph)
    return found


def _append(log: Path, to: Path) -> None:
    if log.exists():
        with to.open("a", encoding="utf-8") as file:
            file.write(log.read_text(encoding="utf-8"))
