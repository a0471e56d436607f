"""A step of retraining: what changed, what to compute again, whether the result may take the place of the current one.

Everything is done in a work folder of the lease, which is a run folder; the next night goes on with that of a night
that was killed. Only the last record of the ledger makes a version current.
"""

import shutil
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gscl_scale.config.config import Config
from gscl_scale.embed.rotation import alignment, common_nodes
from gscl_scale.embed.store import take_rows
from gscl_scale.errors import FolderError, GsclError, RunError, StoppedError
from gscl_scale.evaluate.schema import read_metrics
from gscl_scale.graph.graph import Graph
from gscl_scale.io.json import read_json, write_json
from gscl_scale.registry.lease import Lease, leased
from gscl_scale.registry.ledger import State
from gscl_scale.registry.versions import Registry, Version
from gscl_scale.retrain.gate import Figures, Verdict, judge
from gscl_scale.retrain.work_folder import (
    NOTE,
    changes_since,
    files_of,
    made_from,
    may_build_on,
    take_over,
    write_start,
)
from gscl_scale.run.folder import Run
from gscl_scale.run.record import claim, config_in, open_run, with_seed
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.stop import asked_to_stop, stop_after
from gscl_scale.stages import train as training
from gscl_scale.stages.embed import embed as embed_stage
from gscl_scale.stages.evaluate import evaluate
from gscl_scale.stages.ingest import ingest
from gscl_scale.stages.precompute import precompute
from gscl_scale.stages.report import report

_MEASURED = 20_000  # rows that norms and alignment are measured on


@dataclass(frozen=True)
class Outcome:
    """How a night ended.

    result    promoted: a new version is current; unchanged: graph and settings are those of a version that is kept;
              refused: the gate did not let the new version through
    version   the one that this is about; current: the one that is current now
    checks    what the gate looked at
    changes   nodes and rows that are new, gone or different, and the share of the anchors that were sampled again
    """

    result: Literal["promoted", "unchanged", "refused"]
    version: str
    current: str
    reason: str
    checks: list[dict[str, Any]]
    changes: dict[str, Any]


def retrain(config: Config, where: str | Path, console: Console) -> Outcome:
    """Bring a registry up to date with the graph; LeaseError if another run is at it, StoppedError if told to stop."""
    registry, settings = Registry(where), config.retrain
    _refuse_full(registry, settings.disk_gb)
    with (
        stop_after(60 * settings.minutes),
        asked_to_stop() as asked,
        leased(registry.store, settings.lease_s, settings.wait_s, console, asked) as lease,
    ):
        night = _Night(with_seed(config, 0), registry, lease, asked, console)
        try:
            outcome = night.run()
        except (GsclError, OSError):
            lease.verify()  # whatever went wrong, the reason is that another run has taken over the work
            raise
        registry.clear(lease)
    return outcome


class _Night:
    """The holder of the lease at work; `base` is the current version, if there is one."""

    def __init__(
        self, config: Config, registry: Registry, lease: Lease, asked: threading.Event, console: Console
    ) -> None:
        self._registry, self._lease, self._asked, self._console = registry, lease, asked, console
        self._state = registry.point()
        self._config = config
        self._base = Run.at(registry.folder(self._state.current)) if self._state.current else None

    def run(self) -> Outcome:
        """From the graph to the decision."""
        folder = take_over(self._registry.place / "work", self._lease.token)
        warm = self._base is not None and self._may_start_warm(self._base)
        run, graph = self._ingest(folder, self._config_if(warm))
        asked_for = made_from(self._config, graph)
        if known := self._known(asked_for):
            shutil.rmtree(folder)
            return self._again(known)
        if warm and self._base and _reads_otherwise(graph, Graph.open(self._base.graph)):
            warm = False
            claim(self._config, run)
        self._work(self._config_if(warm), run, warm)
        figures, before = self._figures(run)
        verdict = judge(figures, before, self._config.gate)
        changes = changes_since(run, graph)
        about = {
            "made_from": asked_for,
            "base": self._state.current,
            "warm": self._warm_in_a_row() + 1 if warm else 0,
            "figures": asdict(figures),
            "checks": verdict.dump(),
            "changes": changes,
            "graph": {"nodes": graph.num_nodes, "entries": int(graph.indices.size), "fingerprint": graph.fingerprint},
        }
        version = self._registry.keep(self._lease, folder, files_of(folder), about)
        state = self._decide(version, verdict)
        shutil.rmtree(folder)
        result: Literal["promoted", "refused"] = "promoted" if verdict.passed else "refused"
        return Outcome(result, version.name, state.current, verdict.reason, verdict.dump(), changes)

    # --- the way to a new version ------------------------------------------------------------------------------------

    def _ingest(self, folder: Path, config: Config) -> tuple[Run, Graph]:
        """The graph of tonight in the work folder; what was begun for another graph, base or setting goes."""
        note = {"base": self._state.current}
        if folder.exists() and not ((folder / NOTE).exists() and read_json(folder / NOTE) == note):
            shutil.rmtree(folder)
        try:
            run, graph = self._opened(folder, config, note)
        except FolderError:
            shutil.rmtree(folder, ignore_errors=True)
            run, graph = self._opened(folder, config, note)
        self._console = self._console.with_log(run.log)
        self._go_on()
        return run, graph

    def _opened(self, folder: Path, config: Config, note: dict[str, Any]) -> tuple[Run, Graph]:
        if not (folder / "run.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
        run = open_run(config, folder)
        write_json(folder / NOTE, note)
        return run, ingest(config, run, self._console)

    def _work(self, config: Config, run: Run, warm: bool) -> None:
        """The stages from the rings to the report; what is finished is skipped."""
        base, console = self._base, self._console
        since = base.folder if base and may_build_on(config, base) else None
        precompute(config, run, console, since=since)
        self._go_on()
        if base and warm:
            write_start(run, base)
        training.train(config, run, console)
        self._go_on()
        embed_stage(config, run, console, towards=base if config.retrain.rotate else None)
        self._go_on()
        evaluate(config, run, console)
        report(config, run, console)
        self._go_on()

    def _may_start_warm(self, base: Run) -> bool:
        settings = self._config.retrain
        due = settings.fresh_every > 0 and self._warm_in_a_row() >= settings.fresh_every
        return settings.start == "warm" and not due and config_in(base.folder).model == self._config.model

    def _warm_in_a_row(self) -> int:
        """How many versions have started warm, up to the current one."""
        return int(self._registry.version(self._state.current).index.get("warm", 0)) if self._state.current else 0

    def _config_if(self, warm: bool) -> Config:
        """The settings of tonight: fewer epochs where the training starts warm and that is set."""
        epochs = self._config.retrain.epochs
        if not (warm and epochs):
            return self._config
        return self._config.model_copy(update={"train": self._config.train.model_copy(update={"epochs": epochs})})

    def _go_on(self) -> None:
        """Between two stages: are we still meant to?"""
        self._lease.check()
        if self._asked.is_set():
            raise StoppedError("retraining was asked to stop, or its time is over; the same command goes on from here")

    # --- the decision ------------------------------------------------------------------------------------------------

    def _known(self, asked_for: str) -> Version | None:
        """The kept version that was made from the same graph with the same settings."""
        versions = (self._registry.version(name) for name in reversed(self._state.kept()))
        return next((version for version in versions if version.index.get("made_from") == asked_for), None)

    def _again(self, known: Version) -> Outcome:
        """Nothing is to be computed: it was, with this result; the graph may have gone back to an earlier one."""
        checks, name = known.index.get("checks", []), known.name
        if name in self._state.refused:
            reason = "; ".join(check["sentence"] for check in checks if not check["holds"])
            return Outcome("refused", name, self._state.current, reason or "it was rolled back by hand", checks, {})
        if name == self._state.current:
            return Outcome("unchanged", name, name, "", checks, {})
        promoted = (*(other for other in self._state.promoted if other != name), name)
        self._lease.record("promoted again", version=name, current=name, promoted=promoted)
        return Outcome("promoted", name, self._registry.point().current, "", checks, {})

    def _figures(self, run: Run) -> tuple[Figures, Figures | None]:
        """Those of the new version, and of the current one."""
        metrics, graph = read_metrics(run.metrics), Graph.open(run.graph)
        nodes = np.unique(np.linspace(0, graph.num_nodes - 1, _MEASURED).astype(np.int64))
        norm = float(np.median(np.linalg.norm(take_rows(run.embeddings, nodes), axis=1)))
        if self._base is None:
            return Figures.of(metrics, norm), None
        common = common_nodes(Graph.open(self._base.graph), graph, most=_MEASURED)
        ours = take_rows(run.embeddings, common.later)
        theirs = take_rows(self._base.embeddings, common.earlier)
        before = self._registry.version(self._state.current).index.get("figures", {})
        return Figures.of(metrics, norm, alignment(ours, theirs)), Figures.parse(before)

    def _decide(self, version: Version, verdict: Verdict) -> State:
        """The one record that counts; then the pointer follows."""
        state, keep, name = self._lease.state, self._config.retrain.keep, version.name
        if verdict.passed:
            promoted = (*state.promoted, name)[-keep:]
            self._lease.record("promoted", version=name, current=name, promoted=promoted)
        else:
            refused = (*state.refused, name)[1 - keep :]
            self._lease.record("refused", version=name, reason=verdict.reason, refused=refused)
        return self._registry.point()


def _reads_otherwise(graph: Graph, before: Graph) -> bool:
    """Whether the weights of an earlier version would meet other feature columns than those that they have learnt."""
    return bool(graph.other_features(before.num_features, before.feature_columns))


def _refuse_full(registry: Registry, disk_gb: float) -> None:
    taken = registry.store.total_bytes() / 1e9 if disk_gb else 0.0
    if taken > disk_gb:
        raise RunError(
            f"{registry.store.where} takes {taken:.2f} GB, retrain.disk_gb allows {disk_gb:g}; "
            "allow more, or keep fewer versions (retrain.keep)"
        )
