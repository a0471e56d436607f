"""A step of retraining: what changed, what to compute again, whether the result may take the place of the current one.

Everything is done in a work folder of the lease, which is a run folder; the next night resumes in that of a night
that was killed. Only the last record of the ledger makes a version current.
"""

import shutil
import threading
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from gscl_scale.config.config import Config
from gscl_scale.embed.rotation import alignment, common_nodes, lack_for_alignment
from gscl_scale.embed.store import take_rows
from gscl_scale.errors import ConfigError, FolderError, GsclError, RunError, StoppedError
from gscl_scale.evaluate.schema import read_metrics
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import ColumnEncoding
from gscl_scale.io.json import read_json, write_json
from gscl_scale.registry.history import add_row, history_row, rows_until
from gscl_scale.registry.lease import Lease, hold_lease
from gscl_scale.registry.retention import remove_parts
from gscl_scale.registry.versions import (
    Changes,
    Check,
    Figures,
    HistoryRow,
    Links,
    Registry,
    Version,
    refusal_of,
    version_name,
)
from gscl_scale.retrain.decision import decide, held_back, promote_again
from gscl_scale.retrain.foresight import compare_links, link_sentences
from gscl_scale.retrain.gate import figures_of, judge
from gscl_scale.retrain.work_folder import (
    NOTE,
    changes_since,
    encoding_before,
    files_of,
    night_identities,
    other_inputs,
    samples_to_build_on,
    take_over,
    write_start,
)
from gscl_scale.run.folder import Run
from gscl_scale.run.record import claim, config_in, open_run, repeat_config
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.runner import stay_joined
from gscl_scale.runtime.stop import stop_after, stop_event
from gscl_scale.stages import train as training
from gscl_scale.stages.embed import embed as embed_stage
from gscl_scale.stages.evaluate import evaluate
from gscl_scale.stages.ingest import ingest
from gscl_scale.stages.precompute import precompute
from gscl_scale.stages.report import report

_Decided = Literal["promoted", "candidate", "refused"]  # events of the ledger
_MEASURED = 20_000  # rows that norms and alignment are measured on


@dataclass(frozen=True)
class Outcome:
    """How a night ended.

    result    promoted: a new version is current; unchanged: graph and settings are those of a stored version;
              candidate: the gate accepted the new version, but another one is pinned or has become current meanwhile;
              refused: the gate did not let the new version through; failed: there was an error
    version   the one that this is about; current: the one that is current now
    checks    the conditions of the gate
    changes   what changed in the graph since the current version
    links     how well this version and the current one told edges from other pairs
    history   figures of the last versions, this one included
    """

    registry: str
    result: Literal["promoted", "unchanged", "candidate", "refused", "failed"]
    seconds: float = 0.0
    version: str = ""
    current: str = ""
    reason: str = ""
    checks: list[Check] = field(default_factory=list)
    changes: Changes = field(default_factory=Changes)
    links: Links = field(default_factory=Links)
    history: list[HistoryRow] = field(default_factory=list)

    def dump(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def sentence(self) -> str:
        """For a reader."""
        stays = f"{self.current or 'nothing'} stays current"
        by_hand = f"gscl-scale registry promote {self.version} --registry {self.registry}"
        why = f", because {self.reason}" if self.reason else ""
        return {
            "promoted": f"{self.version} is current, after {self.seconds:.0f} s",
            "unchanged": f"nothing to do: graph and settings are those of {self.version}; {stays}{why}",
            "candidate": f"{self.version} passed the gate and is stored as a candidate; {stays}{why}. To promote it: "
            f"{by_hand}",
            "refused": f"{self.version} was refused: {self.reason}; {stays}. To promote it all the same: {by_hand}",
        }.get(self.result, self.reason)


def retrain(config: Config, where: str | Path, console: Console) -> Outcome:
    """Bring a registry up to date with the graph; LeaseError if another run is at it, StoppedError if asked to stop."""
    if config.evaluate.shuffle_labels is not None:
        raise ConfigError("evaluate.shuffle_labels: a registry has versions of the labels as they are; leave it out")
    began, registry, settings = time.monotonic(), Registry(where), config.retrain
    _refuse_full(registry, settings.disk_gb)
    with (
        stop_after(60 * settings.minutes),
        stop_event() as asked,
        hold_lease(registry.store, settings.lease_s, settings.wait_s, console, asked) as lease,
    ):
        night = _Night(repeat_config(config, 0), str(where), registry, lease, asked, console)
        try:
            outcome = night.run()
        except (GsclError, OSError):
            lease.verify()  # whatever went wrong, the reason is that another run has taken over the work
            raise
        registry.clear(lease)
        remove_parts(registry, settings.keep_complete)
    return replace(outcome, seconds=round(time.monotonic() - began, 3))


class _Night:
    """The holder of the lease at work; `base` is the current version, if there is one."""

    def __init__(
        self, config: Config, where: str, registry: Registry, lease: Lease, asked: threading.Event, console: Console
    ) -> None:
        self._where, self._registry, self._lease, self._asked = where, registry, lease, asked
        self._console = console
        self._state = registry.point()
        self._config = config
        current = self._state.current
        self._base = Run.at(registry.folder(current)) if current else None
        self._base_index = registry.version(current).index if current else None
        self._history = rows_until(registry, self._state)

    def run(self) -> Outcome:
        """From the graph to the decision."""
        folder = take_over(self._registry.place / "work", self._lease.token)
        warm = self._may_start_warm()
        run, graph = self._ingest(folder, self._settings_for(warm), warm)
        origins = night_identities(self._config, graph)
        if known := self._version_from(origins):
            shutil.rmtree(folder)
            return self._repeat(known)
        if warm and self._base and (others := other_inputs(graph, Graph.open(self._base.graph))):
            warm = False
            self._console.say(f"{others}: the training starts from new weights")
            self._console.event("retrain", "new_weights", reason=others)
            claim(self._config, run)
        self._work(self._settings_for(warm), run, warm)
        figures, before = self._figures(run)
        links, changes = self._links(run), changes_since(run, graph)
        checks = judge(figures, before, self._config.gate, links)
        row = history_row(version_name(self._lease), graph.num_nodes, figures, checks, links, changes)
        history = add_row(self._history, row)
        self._console.event("retrain", "versions", rows=history)
        report(self._settings_for(warm), run, self._console)
        self._refuse_to_go_on()
        version = self._registry.keep(
            self._lease,
            folder,
            files_of(folder),
            {
                "made_from": origins[0],
                "base": self._state.current,
                "warm": self._warm_in_a_row() + 1 if warm else 0,
                "figures": figures,
                "checks": checks,
                "changes": changes,
                "links": links,
                "history": history,
                "graph": {
                    "nodes": graph.num_nodes,
                    "entries": int(graph.indices.size),
                    "fingerprint": graph.fingerprint,
                },
            },
        )
        outcome = self._decide(version.name, checks)
        shutil.rmtree(folder, ignore_errors=True)  # a run that has taken over since then has it under another name
        return replace(outcome, checks=checks, changes=changes, links=links, history=history)

    # --- the way to a new version ------------------------------------------------------------------------------------

    def _ingest(self, folder: Path, config: Config, warm: bool) -> tuple[Run, Graph]:
        """The graph of tonight in the work folder; what was begun for another graph, base or setting is deleted.

        An encoder that starts warm reads the columns of a node table as it has learnt them.
        """
        note = {"base": self._state.current}
        preferred = encoding_before(config, Graph.open(self._base.graph)) if warm and self._base else []
        if folder.exists() and not ((folder / NOTE).exists() and read_json(folder / NOTE) == note):
            shutil.rmtree(folder)
        try:
            run, graph = self._open(folder, config, note, preferred)
        except FolderError:
            shutil.rmtree(folder, ignore_errors=True)
            run, graph = self._open(folder, config, note, preferred)
        self._console = self._console.with_log(run.log)
        self._refuse_to_go_on()
        return run, graph

    def _open(
        self, folder: Path, config: Config, note: dict[str, str], preferred: list[ColumnEncoding]
    ) -> tuple[Run, Graph]:
        if not (folder / "run.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
        run = open_run(config, folder)
        write_json(folder / NOTE, note)
        return run, ingest(config, run, self._console, preferred=preferred)

    def _work(self, config: Config, run: Run, warm: bool) -> None:
        """The stages from the rings to the figures; finished ones are skipped."""
        base, console = self._base, self._console
        training.refuse_untrainable(config, run)
        if self._is_base_incomplete():
            console.say(
                f"{self._state.current} has no samples and checkpoints any more (retrain.keep_complete): all anchors "
                "are sampled again, and the training starts from new weights"
            )
        complete = base if not self._is_base_incomplete() else None
        since = samples_to_build_on(config, run, complete, console) if complete else None
        with stay_joined(config.runtime.for_tasks()):
            precompute(config, run, console, since=since)
            self._refuse_to_go_on()
            if base and warm:
                write_start(run, base)
            training.train(config, run, console)
            self._refuse_to_go_on()
            embed_stage(config, run, console, towards=base if config.retrain.rotate else None)
            self._refuse_to_go_on()
            evaluate(config, run, console)
        self._refuse_to_go_on()

    def _may_start_warm(self) -> bool:
        settings = self._config.retrain
        due = settings.fresh_every > 0 and self._warm_in_a_row() >= settings.fresh_every
        if settings.start != "warm" or due or self._base is None or self._is_base_incomplete():
            return False
        return config_in(self._base.folder).model == self._config.model

    def _is_base_incomplete(self) -> bool:
        """Whether samples and checkpoints of the current version were removed before it became current again."""
        return bool(self._base_index and self._base_index.get("removed"))

    def _warm_in_a_row(self) -> int:
        """How many versions have started warm, up to the current one."""
        return self._base_index.get("warm", 0) if self._base_index else 0

    def _settings_for(self, warm: bool) -> Config:
        """The settings of tonight: fewer epochs where the training starts warm and that is set."""
        epochs = self._config.retrain.epochs
        if not (warm and epochs):
            return self._config
        return self._config.model_copy(update={"train": self._config.train.model_copy(update={"epochs": epochs})})

    def _refuse_to_go_on(self) -> None:
        """Between two stages: LeaseError if the lease is lost, StoppedError if a stop was asked for."""
        self._lease.check()
        if self._asked.is_set():
            raise StoppedError("stopped by SIGTERM or after retrain.minutes; rerun the same command to resume")

    # --- the decision ------------------------------------------------------------------------------------------------

    def _version_from(self, origins: list[str]) -> Version | None:
        """The newest stored version that was made from the same graph with the same settings.

        A candidate counts only if it was compared with the version that is current.
        """
        state = self._state
        versions = (self._registry.version(name) for name in reversed(state.kept()))
        same = (version for version in versions if version.index.get("made_from") in origins)
        return next((v for v in same if v.name not in state.candidates or v.index.get("base") == state.current), None)

    def _repeat(self, known: Version) -> Outcome:
        """Nothing is computed: this version has the result; the graph may have gone back to an earlier one."""
        name, base, keep = known.name, self._state.current, self._config.retrain.keep
        state = self._lease.record(lambda state: promote_again(state, name, base, keep))
        is_promoted = state.event == "promoted again"
        current = self._registry.point().current
        checks, history = known.index.get("checks", []), self._history
        outcome = Outcome(self._where, "unchanged", 0.0, name, current, checks=checks, history=history)
        if name in state.refused and name not in state.candidates:
            by_gate = "" if name in state.rolled_back else known.refusal
            return replace(outcome, result="refused", reason=by_gate or "it was rolled back by hand")
        if is_promoted:
            return replace(outcome, result="promoted")
        return replace(outcome, reason="" if name == state.current else held_back(state, base))

    def _figures(self, run: Run) -> tuple[Figures, Figures | None]:
        """Those of the new version, and of the current one."""
        metrics, graph = read_metrics(run.metrics), Graph.open(run.graph)
        nodes = np.unique(np.linspace(0, graph.num_nodes - 1, _MEASURED).astype(np.int64))
        norm = float(np.median(np.linalg.norm(take_rows(run.embeddings, nodes), axis=1)))
        if self._base is None or self._base_index is None:
            return figures_of(metrics, norm), None
        common = common_nodes(Graph.open(self._base.graph), graph, most=_MEASURED)
        ours = take_rows(run.embeddings, common.later)
        theirs = take_rows(self._base.embeddings, common.earlier)
        if lack := lack_for_alignment(ours, theirs):
            self._console.say(f"alignment with {self._state.current} is not measured (gate.alignment_least): {lack}")
        return figures_of(metrics, norm, alignment(ours, theirs)), self._base_index.get("figures", {})

    def _links(self, run: Run) -> Links:
        """Both versions compared by edges, and printed."""
        if self._base is None:
            return {}
        links = compare_links(self._base, run, self._config.evaluate.seed)
        for sentence in link_sentences(links, self._state.current):
            self._console.say(sentence)
        self._console.event("retrain", "links", **links)
        return links

    def _decide(self, name: str, checks: list[Check]) -> Outcome:
        """Write the one record that counts; then the pointer follows."""
        base, keep, refusal = self._state.current, self._config.retrain.keep, refusal_of(checks)
        state = self._lease.record(lambda state: decide(state, name, base, refusal, keep))
        current = self._registry.point().current
        return Outcome(self._where, cast(_Decided, state.event), 0.0, name, current, state.reason)


def _refuse_full(registry: Registry, disk_gb: float) -> None:
    taken = registry.store.total_bytes() / 1e9 if disk_gb else 0.0
    if taken > disk_gb:
        raise RunError(
            f"{registry.store.where} takes {taken:.2f} GB, retrain.disk_gb allows {disk_gb:g}; "
            "allow more, or keep fewer versions (retrain.keep), or fewer with samples (retrain.keep_complete)"
        )
