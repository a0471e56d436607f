"""Making rounds: which tasks are missing, in which order they run, and what the manifest says in the end."""

import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from gscl_scale.errors import FolderError
from gscl_scale.graph.graph import Graph
from gscl_scale.io.atomic import half_written
from gscl_scale.io.checksum import fingerprint_of, sha256_of
from gscl_scale.io.json import write_json
from gscl_scale.io.validate import FileEntry
from gscl_scale.machine import expect_reads_in_order
from gscl_scale.rings.pagerank import pagerank
from gscl_scale.rings.priorities import round_key
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.local import LocalRunner
from gscl_scale.runtime.runner import Runner
from gscl_scale.runtime.settings import NOTHING, MemoryNeed
from gscl_scale.shards.drawing import draw, draw_bounded, ranks_path
from gscl_scale.shards.format import (
    map_priorities,
    priorities_path,
    round_folder,
    rounds_in,
    weights_path,
    write_weights,
)
from gscl_scale.shards.incremental import ChangeCounts, EarlierSamples
from gscl_scale.shards.journal import Journal
from gscl_scale.shards.levels import levels_folder
from gscl_scale.shards.plan import FORMAT, MANIFEST, Plan
from gscl_scale.shards.process_cache import close_round, open_weights
from gscl_scale.shards.records import PartRecord, PartTask, PassTask, RoundEntry
from gscl_scale.shards.task import level_files, run_part, run_pass
from gscl_scale.shards.tiled import Tiling, grouped

Advance = Callable[..., None]


class Rounds:
    """The rounds of a samples folder: what is finished, and how the rest is made."""

    def __init__(
        self,
        graph: Graph,
        graph_folder: Path,
        folder: Path,
        plan: Plan,
        journal: Journal,
        runner: Runner,
        console: Console,
        since: EarlierSamples | None,
    ) -> None:
        self._graph, self._graph_folder, self._folder = graph, graph_folder, folder
        self._plan, self._config, self._journal = plan, plan.config, journal
        self._runner, self._console, self._since = runner, console, since
        self._done = journal.parts()
        self._num_resumed = len(self._done)
        self._drawn: set[int] = set()
        self._kept_passes = self._new_passes = 0
        self._again: list[int] = []  # anchors sampled again, of each round that builds on an earlier run

    def begin(self, need: MemoryNeed = NOTHING) -> None:
        """Prepare what all rounds need, and report what an earlier attempt left; `need`: of each machine for tasks."""
        self._journal.begin()
        self._runner.check_shared(self._folder, need)
        close_round()  # of an attempt in this process that failed
        self._clear_half_written()
        if self._config.sampling == "pagerank":
            self._choose_weights(self._since.weights() if self._since else None)
        if self._num_resumed and self._journal.manifest is None:
            self._console.event("precompute", "resumed", finished_parts=self._num_resumed)

    def _choose_weights(self, earlier: npt.NDArray[np.float64] | None) -> None:
        """Load the earlier run's weights or compute PageRank; refuse weights that differ from the recorded ones."""
        path, recorded = weights_path(self._folder), self._journal.weights()
        if recorded is not None and recorded.get("earlier") and earlier is None:
            raise self._other_weights()
        if recorded is not None and path.exists() and sha256_of(path) == recorded["sha256"]:
            on_disk = open_weights(self._folder)
            if on_disk is not None and earlier is not None and not np.array_equal(on_disk, earlier):
                raise self._other_weights()
            return
        graph = self._graph
        write_weights(path, pagerank(graph.indptr, graph.indices, graph.edge_weights) if earlier is None else earlier)
        checksum = sha256_of(path)
        if recorded is None:
            self._journal.append({"weights": {"sha256": checksum, "earlier": earlier is not None}})
        elif checksum != recorded["sha256"]:
            path.unlink()
            raise self._other_weights()

    def _other_weights(self) -> FolderError:
        whose, cure = ("the earlier run", "leave --since out") if self._since else ("this graph", "give --since again")
        return FolderError(
            f"the PageRank scores of {self._folder} differ from those of {whose}; "
            f"{cure}, or delete this folder and run again"
        )

    def make_rounds(self, rounds: int) -> None:
        """Make what is missing of the first rounds."""
        finished = sum(all(self._parts_done(number)) for number in range(rounds)) * self._plan.steps
        with self._console.progress("precompute", rounds * self._plan.steps, "tasks", finished) as advance:
            for number in range(rounds):
                self.make_round(number, advance)

    def round_bytes(self) -> int:
        """Bytes of the parts of a round."""
        return sum(record["bytes"] for record in self._done.values() if record["round_number"] == 0)

    def missing(self, rounds: int) -> float:
        """How many of the first rounds are still to be made; a fraction where some parts of one are finished."""
        done = sum(sum(self._parts_done(number)) for number in range(rounds))
        return rounds - done / self._plan.num_parts

    def finish(self, asked: int, rounds: int) -> None:
        """Write the manifest, and remove the rounds that it does not name and what only the work needed."""
        self.write_manifest(asked, range(rounds))
        for number in rounds_in(self._folder) - set(range(rounds)):
            self.drop_round(number)
        self._journal.close()
        self.clear_scratch()
        self._clear_half_written()
        if len(set(self._again)) > 1:
            self._console.say(
                f"{len(self._again)} rounds: sampled {min(self._again):,} to {max(self._again):,} of "
                f"{self._graph.num_nodes:,} anchors again"
            )
        sampled = [record for record in self._done.values() if record.get("short")]  # now, not by an earlier command
        lists = sum(record["rows"] for record in sampled) * (self._config.hops + 1)
        short = {"short": sum(sum(record["short"]) for record in sampled) / lists} if lists else {}
        self._console.event(
            "precompute", "done", engine=self._config.engine, rounds=rounds, parts=len(self._done),
            bytes=sum(record["bytes"] for record in self._done.values()),
            computed=len(self._done) - self._num_resumed,
            passes_computed=self._new_passes, passes_kept=self._kept_passes, **short,
        )  # fmt: skip

    def clear_scratch(self) -> None:
        """Remove what only the work needed."""
        shutil.rmtree(self._folder / "scratch", ignore_errors=True)

    def drop_round(self, number: int) -> None:
        """Remove a round that was used."""
        shutil.rmtree(round_folder(self._folder, number), ignore_errors=True)
        self._drawn.discard(number)
        for part in range(self._plan.num_parts):
            self._done.pop((number, part), None)

    def _clear_half_written(self) -> None:
        """Remove the half-written files of processes that were killed, on other machines too."""
        for path in half_written(self._folder):
            path.unlink(missing_ok=True)

    def _parts_done(self, number: int) -> list[bool]:
        return [(number, part) in self._done for part in range(self._plan.num_parts)]

    def make_round(self, number: int, advance: Advance) -> None:
        """Make what is missing of a round; `advance` is called after every task."""
        missing = [part for part, done in enumerate(self._parts_done(number)) if not done]
        if self._config.sharing == "shared" and number not in self._drawn:
            if missing or not self._journal.has_priorities(number):
                self._draw(number)
            self._drawn.add(number)
        if not missing:
            return
        since = self._since if self._since is not None and self._since.has(number) else None
        if since is not None:
            self._find_changes(since, number)
        local = isinstance(self._runner, LocalRunner)
        task = (
            self._graph_folder, self._folder, number, self._config, since.samples.folder if since else None, local,
        )  # fmt: skip
        for radius in self._plan.radii:
            together = local and self._plan.tiled and radius > 1  # all threads gather from the same tile
            threads = self._runner.workers if together else self._runner.task_threads
            memory = self._plan.memory * (threads if together else 1)
            ranges = self._missing_ranges(number, radius, since is not None, memory, advance)
            tasks = (PassTask(*task, *ends, radius, memory, threads) for ends in ranges)
            passes = map(run_pass, tasks) if together else self._runner.run(run_pass, tasks)
            for finished in itertools.chain.from_iterable(passes):
                self._new_passes += 1
                if since is None:  # else the pass has only some of its rows
                    self._journal.append({"pass": finished})
                advance(1)
        advance(self._plan.num_parts - len(missing))
        memory = self._plan.memory if self._plan.tiled else 0
        parts = (PartTask(*task, *self._plan.anchors(part), part, memory) for part in missing)
        for record in self._runner.run(run_part, parts):
            self._done[record["round_number"], record["part"]] = record
            self._journal.append({"part": record})
            advance(1)
        close_round()
        expect_reads_in_order(self._graph_folder)  # by whoever is next: searches of tasks in this process have ended
        shutil.rmtree(levels_folder(self._folder, number), ignore_errors=True)

    def _find_changes(self, since: EarlierSamples, number: int) -> None:
        """Find what is to be sampled again after the earlier run."""
        priorities = map_priorities(priorities_path(self._folder, number))
        counts = since.prepare(self._folder, number, self._graph, priorities, self._config)
        self._console.event(
            "precompute", "since", round=number, earlier=str(since.samples.folder), anchors_again=counts.again,
            anchors_counted=counts.counted, rows_changed=counts.rows,
            nodes_come=int((since.matching.old_of_new < 0).sum()),
            nodes_gone=int((since.matching.new_of_old < 0).sum()),
        )  # fmt: skip
        self._again.append(counts.again)
        if len(self._again) == 1:
            self._console.say(self._first_changes(number, counts))

    def _first_changes(self, number: int, counts: ChangeCounts) -> str:
        """What is sampled again in the first round; other rounds differ little."""
        if counts.again == self._graph.num_nodes:
            return f"round {number}: sampling all {counts.again:,} anchors again"
        counted = f", counting the last ring of {counts.counted:,}" if counts.counted else ""
        return (
            f"round {number}: sampling {counts.again:,} of {self._graph.num_nodes:,} anchors again{counted}, copying "
            "the others from the earlier run"
        )

    def _draw(self, number: int) -> None:
        """Draw the priorities of a round; they are the same whenever they are drawn."""
        drawing = priorities_path(self._folder, number), self._graph, round_key(self._config.seed, number)
        weights = open_weights(self._folder)
        if self._plan.tiled:
            draw_bounded(*drawing, weights, ranks_path(self._folder, number), self._plan.memory)
        else:
            draw(*drawing, weights)

    def _missing_ranges(
        self, number: int, radius: int, partly: bool, memory: int, advance: Advance
    ) -> Iterator[tuple[int, int]]:
        """The ranges of a pass that no attempt has finished; a pass around changes is made `partly`, and anew.

        In bounded memory a range is a group of blocks: for each group the level before is read once.
        """
        files = level_files(self._graph, self._folder, number, radius, self._config)
        finished: set[int] = set() if partly else self._journal.passes(number, radius, files)
        files.create()
        self._kept_passes += len(finished)
        advance(len(finished))
        missing: Iterator[tuple[int, int]] = (ends for ends in self._plan.ranges() if ends[0] not in finished)
        if self._plan.tiled and radius > 1:
            missing = grouped(missing, Tiling.of(files, memory).group)
        yield from missing

    def write_manifest(self, asked: int, numbers: Iterable[int]) -> None:
        """Name the rounds that are on disk; the place of any other is null."""
        on_disk = set(numbers)
        first = [self._done[0, part] for part in range(self._plan.num_parts)]
        manifest = {
            "format": FORMAT,
            "graph_fingerprint": self._plan.graph_fingerprint,
            "rings": self._plan.rings,
            "seed": self._config.seed,
            "num_nodes": self._plan.num_nodes,
            "index_type": self._graph.indices.dtype.name,
            "mean_ring_size": list(np.sum([r["ring_size_sum"] for r in first], axis=0) / self._plan.num_nodes),
            "mean_stored": list(np.sum([r["members"] for r in first], axis=0) / self._plan.num_nodes),
            "rounds_asked": asked,
            "rounds": [self._entry(number) if number in on_disk else None for number in range(max(on_disk) + 1)],
        }
        if self._config.sampling == "pagerank":
            manifest["weights"] = _file_entry(weights_path(self._folder))
        write_json(self._folder / MANIFEST, {**manifest, "fingerprint": fingerprint_of(manifest)})

    def _entry(self, number: int) -> RoundEntry:
        """A round in the manifest: its files, however they were made."""
        records = [self._done[number, part] for part in range(self._plan.num_parts)]
        required = PartRecord.__required_keys__
        parts = [
            cast(PartRecord, {name: value for name, value in record.items() if name in required}) for record in records
        ]
        if self._config.sharing != "shared":
            return {"parts": parts}
        return {"priorities": _file_entry(priorities_path(self._folder, number)), "parts": parts}


def _file_entry(path: Path) -> FileEntry:
    return {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
