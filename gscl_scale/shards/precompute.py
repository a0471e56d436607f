"""All rounds of ring samples: plan the work, skip what is recorded, run the rest, write the manifest last."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gscl_scale.config import RingsConfig
from gscl_scale.errors import ConfigError, RunError
from gscl_scale.files import fingerprint_of, read_json, sha256_of, write_json
from gscl_scale.graph import Graph
from gscl_scale.rings import draw_priorities, pagerank
from gscl_scale.runtime import Console, Runner
from gscl_scale.shards.format import map_priorities, priorities_path, weights_path, write_priorities, write_weights
from gscl_scale.shards.journal import Journal
from gscl_scale.shards.levels import scratch_folder
from gscl_scale.shards.opened import close_round, open_weights
from gscl_scale.shards.plan import FORMAT, MANIFEST, Plan, make_plan
from gscl_scale.shards.since import Since
from gscl_scale.shards.task import PartRecord, PartTask, PassTask, level_files, run_part, run_pass


def precompute(
    graph_folder: Path,
    folder: Path,
    config: RingsConfig,
    epochs: int,
    runner: Runner,
    console: Console,
    since: tuple[Path, Path] | None = None,
) -> None:
    """Write the samples folder of a graph; finished parts of an earlier attempt are kept, and missing rounds added.

    since   graph and samples folder of an earlier run: what did not change is taken from there, with the same result
    """
    graph_folder, folder = graph_folder.absolute(), folder.absolute()  # tasks may run elsewhere
    graph = Graph.open(graph_folder)
    plan, choice = make_plan(graph, folder, config, since[1] if since else None)
    console.say(f"precompute: engine {choice.engine}: {choice.reason}")
    earlier = Since.open(since[0].absolute(), since[1].absolute(), graph, plan) if since else None
    work = _Work(graph, graph_folder, folder, plan, Journal(folder, plan), runner, console, earlier)
    work.begin()
    asked = rounds_asked(config, epochs)
    work.make_rounds(1)  # alone: its size says how many rounds the disk affords
    rounds = _affordable(config, asked, work.round_bytes(), folder)
    if rounds < asked:
        console.say(f"{asked} rounds exceed rings.disk_gb = {config.disk_gb:g}: {rounds} are made and used in turn")
    work.make_rounds(rounds)
    work.finish(asked, rounds)


def is_complete(folder: Path, graph: Graph, config: RingsConfig, epochs: int) -> bool:
    """Whether the folder holds all rounds asked for; one made from another graph or configuration is refused."""
    if not (folder / MANIFEST).exists():
        return False
    plan, _ = make_plan(graph, folder, config)
    manifest = read_json(folder / MANIFEST)
    plan.refuse_other(manifest, folder)
    return bool(manifest["rounds_asked"] >= rounds_asked(config, epochs))


def rounds_asked(config: RingsConfig, epochs: int) -> int:
    """How many rounds the configuration asks for."""
    return epochs if config.rounds == "epoch" else int(config.rounds)


class _Work:
    """One precompute: what is finished so far, and how the rest is made."""

    def __init__(
        self,
        graph: Graph,
        graph_folder: Path,
        folder: Path,
        plan: Plan,
        journal: Journal,
        runner: Runner,
        console: Console,
        since: Since | None,
    ) -> None:
        self._since = since
        self._graph, self._graph_folder, self._folder = graph, graph_folder, folder
        self._plan, self._config, self._journal = plan, plan.config, journal
        self._runner, self._console = runner, console
        self._done = journal.parts()
        self._kept = len(self._done)
        self._kept_passes = 0
        self._new_passes = 0

    def begin(self) -> None:
        """What all rounds need: the weights of the nodes; and tell what an earlier attempt left."""
        self._runner.check_shared(self._folder)
        for path in self._folder.rglob(".*.tmp"):
            path.unlink(missing_ok=True)  # of a killed attempt
        if self._config.sampling == "pagerank" and not self._journal.has_weights():
            weights = self._since.weights() if self._since else None
            if weights is None:
                weights = pagerank(self._graph.indptr, self._graph.indices)
            write_weights(weights_path(self._folder), weights)
        if self._kept and self._journal.manifest is None:
            self._console.event("precompute", "resumed", finished_parts=self._kept)

    def make_rounds(self, rounds: int) -> None:
        """Make what is missing of the first rounds."""
        finished = sum(all(self._parts_done(number)) for number in range(rounds)) * self._plan.steps
        with self._console.progress("precompute", rounds * self._plan.steps, "tasks", finished) as advance:
            for number in range(rounds):
                self._make_round(number, advance)

    def round_bytes(self) -> int:
        """Bytes of the parts of a round."""
        return sum(record.bytes for record in self._done.values() if record.round_number == 0)

    def finish(self, asked: int, rounds: int) -> None:
        """Write the manifest, and clear away what only the work needed."""
        self._write_manifest(asked, rounds)
        self._journal.close()
        shutil.rmtree(self._folder / "scratch", ignore_errors=True)
        short = sum(sum(record.short) for record in self._done.values())
        lists = rounds * self._plan.num_nodes * (self._config.hops + 1)
        self._console.event(
            "precompute", "done", engine=self._config.engine, rounds=rounds, parts=len(self._done),
            bytes=sum(record.bytes for record in self._done.values()), computed=len(self._done) - self._kept,
            passes_computed=self._new_passes, passes_kept=self._kept_passes, short=short / lists,
        )  # fmt: skip

    def _parts_done(self, number: int) -> list[bool]:
        return [(number, part) in self._done for part in range(self._plan.num_parts)]

    def _make_round(self, number: int, advance: Any) -> None:
        missing = [part for part, done in enumerate(self._parts_done(number)) if not done]
        if self._config.sharing == "shared" and (missing or not self._journal.has_priorities(number)):
            self._draw(number)
        if not missing:
            return
        if self._since is not None and self._since.has(number):
            self._find_changes(self._since, number)
        for radius in self._plan.radii:
            self._run(run_pass, self._passes(number, radius, advance), advance)
        advance(self._plan.num_parts - len(missing))
        self._run(run_part, self._parts(number, missing), advance)
        close_round()
        shutil.rmtree(scratch_folder(self._folder, number), ignore_errors=True)

    def _run(self, function: Any, tasks: Iterable[Any], advance: Any) -> None:
        for record in self._runner.run(function, tasks):
            if isinstance(record, PartRecord):
                self._done[record.round_number, record.part] = record
                self._journal.append(record)
            else:
                self._new_passes += 1
                if self._since_of(record.round_number) is None:  # else it is not the whole pass
                    self._journal.append(record)
            advance(1)

    def _since_of(self, number: int) -> Path | None:
        """The earlier samples that a round builds on, if there are any."""
        return self._since.samples.folder if self._since is not None and self._since.has(number) else None

    def _find_changes(self, since: Since, number: int) -> None:
        """Find the anchors that may have other samples than in the earlier run."""
        priorities = map_priorities(priorities_path(self._folder, number))
        again = since.prepare(self._folder, number, self._graph, priorities, self._config)
        self._console.event(
            "precompute", "since", round=number, earlier=str(since.samples.folder), anchors_again=int(again.sum()),
            nodes_come=int((since.matching.old_of_new < 0).sum()),
            nodes_gone=int((since.matching.new_of_old < 0).sum()),
        )  # fmt: skip
        self._console.say(
            f"round {number}: {again.sum():,} of {again.size:,} anchors are sampled again, the others are as before"
        )

    def _draw(self, number: int) -> None:
        """Draw the priorities of a round; they are the same whenever they are drawn."""
        weights = open_weights(self._folder)
        identities = self._graph.identities()
        drawn = draw_priorities(identities, self._config.seed, number, weights, self._graph.indices.dtype.type)
        write_priorities(priorities_path(self._folder, number), drawn)

    def _passes(self, number: int, radius: int, advance: Any) -> Iterator[PassTask]:
        files = level_files(self._graph, self._folder, number, radius, self._config)
        since = self._since_of(number)
        finished = self._journal.passes(number, radius, files) if since is None else set()
        files.create()
        self._kept_passes += len(finished)
        advance(len(finished))
        for first, end in self._plan.ranges():
            if first not in finished:
                yield PassTask(self._graph_folder, self._folder, number, radius, first, end, self._config, since)

    def _parts(self, number: int, missing: list[int]) -> Iterator[PartTask]:
        for part in missing:
            first, end = self._plan.anchors(part)
            since = self._since_of(number)
            yield PartTask(self._graph_folder, self._folder, number, part, first, end, self._config, since)

    def _write_manifest(self, asked: int, rounds: int) -> None:
        entries = []
        parts = range(self._plan.num_parts)
        for number in range(rounds):
            entry: dict[str, Any] = {}
            if self._config.sharing == "shared":
                entry["priorities"] = _described(priorities_path(self._folder, number))
            entry["parts"] = [self._done[number, part].for_manifest() for part in parts]
            entries.append(entry)
        first = [self._done[0, part] for part in parts]
        manifest = {
            "format": FORMAT,
            "graph_fingerprint": self._plan.graph_fingerprint,
            "rings": self._plan.rings,
            "seed": self._config.seed,
            "num_nodes": self._plan.num_nodes,
            "index_type": self._graph.indices.dtype.name,
            "mean_ring_size": list(np.sum([r.ring_size_sum for r in first], axis=0) / self._plan.num_nodes),
            "mean_stored": list(np.sum([r.members for r in first], axis=0) / self._plan.num_nodes),
            "rounds_asked": asked,
            "rounds": entries,
        }
        if self._config.sampling == "pagerank":
            manifest["weights"] = _described(weights_path(self._folder))
        write_json(self._folder / MANIFEST, {**manifest, "fingerprint": fingerprint_of(manifest)})


def _described(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": sha256_of(path)}


def _affordable(config: RingsConfig, asked: int, round_bytes: int, folder: Path) -> int:
    """How many rounds fit `rings.disk_gb` and the disk."""
    limit = max(1, int(config.disk_gb * 1e9) // max(1, round_bytes))
    if config.rounds != "epoch" and asked > limit:
        raise ConfigError(
            f"rings.rounds: {asked} rounds of {round_bytes / 1e9:.2f} GB exceed rings.disk_gb = {config.disk_gb:g}; "
            f"ask for at most {limit} rounds, or allow more disk"
        )
    rounds = min(asked, limit)
    free = shutil.disk_usage(folder).free
    if (rounds - 1) * round_bytes > free:
        raise RunError(
            f"{folder}: {rounds} rounds need {rounds * round_bytes / 1e9:.1f} GB and {free / 1e9:.1f} GB are free; "
            "lower rings.disk_gb or rings.rounds, or free some disk"
        )
    return rounds
