"""All rounds of ring samples: plan the parts, skip those that are recorded, run the rest, write the manifest last."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.config import RingsConfig
from gscl_scale.errors import ConfigError, FolderError, RunError
from gscl_scale.files import fingerprint_of, read_json, sha256_of, write_json
from gscl_scale.graph import Graph
from gscl_scale.rings import draw_priorities, pagerank
from gscl_scale.runtime import Console, run_tasks
from gscl_scale.shards.format import part_path, priorities_path, write_priorities
from gscl_scale.shards.task import PartRecord, PartTask, run_part

FORMAT = 1
MANIFEST = "manifest.json"
_JOURNAL = "progress.jsonl"


@dataclass(frozen=True)
class _Plan:
    """What the samples depend on; a folder of another plan is refused."""

    graph_fingerprint: str
    rings: dict[str, Any]

    @classmethod
    def of(cls, graph: Graph, config: RingsConfig) -> "_Plan":
        # rounds and disk_gb say how many rounds, not what is in them: more can be added later
        return cls(graph.fingerprint, config.model_dump(mode="json", exclude={"rounds", "disk_gb", "engine"}))


def precompute(
    graph_folder: Path, folder: Path, config: RingsConfig, epochs: int, workers: int, console: Console
) -> None:
    """Write the samples folder of a graph; finished parts of an earlier attempt are kept, and missing rounds added."""
    graph = Graph.open(graph_folder)
    plan = _Plan.of(graph, config)
    journal = _Journal(folder, plan)
    weights = pagerank(graph.indptr, graph.indices) if config.sampling == "pagerank" else None
    asked = _rounds_asked(config, epochs)
    done = journal.records()
    if (kept := len(done)) and not journal.complete:
        console.event("precompute", "resumed", finished_parts=kept)

    def run(rounds: int) -> None:
        total = rounds * _num_parts(graph, config)
        tasks = _tasks(graph, graph_folder, folder, config, weights, rounds, done, journal)
        with console.progress("precompute", total, unit="parts", done=len(done)) as advance:
            for record in run_tasks(run_part, tasks, workers):
                journal.append(record)
                done[record.round_number, record.part] = record
                advance(1)

    run(1)  # alone: its first part compiles the kernels once, and its size says how many rounds the disk affords
    rounds = _affordable(config, asked, _round_bytes(done), folder)
    if rounds < asked:
        console.say(f"{asked} rounds exceed rings.disk_gb = {config.disk_gb:g}: {rounds} are made and used in turn")
    run(rounds)
    _write_manifest(folder, graph, plan, config, asked, rounds, done)
    journal.close()
    size = sum(record.bytes for record in done.values())
    console.event("precompute", "done", rounds=rounds, parts=len(done), bytes=size, computed=len(done) - kept)


def is_complete(folder: Path, graph: Graph, config: RingsConfig, epochs: int) -> bool:
    """Whether the folder holds all rounds asked for; one made from another graph or configuration is refused."""
    if not (folder / MANIFEST).exists():
        return False
    manifest = read_json(folder / MANIFEST)
    _refuse_other(manifest, _Plan.of(graph, config), folder)
    return bool(manifest["rounds_asked"] >= _rounds_asked(config, epochs))


def _tasks(
    graph: Graph,
    graph_folder: Path,
    folder: Path,
    config: RingsConfig,
    weights: npt.NDArray[np.float64] | None,
    rounds: int,
    done: dict[tuple[int, int], PartRecord],
    journal: "_Journal",
) -> Iterator[PartTask]:
    """The parts that are not finished, in order; priorities of a round are drawn when its first part is due."""
    identities = graph.identities()
    for round_number in range(rounds):
        parts = [part for part in range(_num_parts(graph, config)) if (round_number, part) not in done]
        if config.sharing == "shared" and (parts or not journal.has_priorities(round_number)):
            drawn = draw_priorities(identities, config.seed, round_number, weights, graph.indices.dtype.type)
            write_priorities(priorities_path(folder, round_number), drawn)
        for part in parts:
            first = part * config.part_anchors
            end = min(first + config.part_anchors, graph.num_nodes)
            yield PartTask(graph_folder, folder, round_number, part, first, end, config)


def _rounds_asked(config: RingsConfig, epochs: int) -> int:
    return epochs if config.rounds == "epoch" else int(config.rounds)


def _num_parts(graph: Graph, config: RingsConfig) -> int:
    return -(-graph.num_nodes // config.part_anchors)


def _round_bytes(done: dict[tuple[int, int], PartRecord]) -> int:
    return sum(record.bytes for record in done.values() if record.round_number == 0)


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


def _write_manifest(
    folder: Path,
    graph: Graph,
    plan: _Plan,
    config: RingsConfig,
    asked: int,
    rounds: int,
    done: dict[tuple[int, int], PartRecord],
) -> None:
    entries = []
    for round_number in range(rounds):
        entry: dict[str, Any] = {}
        if config.sharing == "shared":
            path = priorities_path(folder, round_number)
            entry["priorities"] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
        entry["parts"] = [done[round_number, part].to_json() for part in range(_num_parts(graph, config))]
        entries.append(entry)
    first = [done[0, part] for part in range(_num_parts(graph, config))]
    manifest = {
        "format": FORMAT,
        "graph_fingerprint": plan.graph_fingerprint,
        "rings": plan.rings,
        "seed": config.seed,
        "num_nodes": graph.num_nodes,
        "index_type": graph.indices.dtype.name,
        "mean_ring_size": list(np.sum([r.ring_size_sum for r in first], axis=0) / graph.num_nodes),
        "mean_stored": list(np.sum([r.members for r in first], axis=0) / graph.num_nodes),
        "rounds_asked": asked,
        "rounds": entries,
    }
    write_json(folder / MANIFEST, {**manifest, "fingerprint": fingerprint_of(manifest)})


class _Journal:
    """Which parts are finished, recorded one line each as they are; gone once the manifest tells it all."""

    def __init__(self, folder: Path, plan: _Plan) -> None:
        self._folder = folder
        self._path = folder / _JOURNAL
        self.complete = (folder / MANIFEST).exists()
        folder.mkdir(parents=True, exist_ok=True)
        if self.complete:
            _refuse_other(read_json(folder / MANIFEST), plan, folder)
        lines = self._lines()
        if lines:
            _refuse_other(lines[0], plan, folder)
        else:
            header = {"graph_fingerprint": plan.graph_fingerprint, "rings": plan.rings}
            self._path.write_text(json.dumps(header) + "\n", encoding="utf-8")

    def records(self) -> dict[tuple[int, int], PartRecord]:
        """The finished parts whose files are still what was recorded."""
        records = [PartRecord.from_json(line) for line in self._lines()[1:]]
        if self.complete:
            manifest = read_json(self._folder / MANIFEST)
            records += [PartRecord.from_json(part) for entry in manifest["rounds"] for part in entry["parts"]]
        return {(record.round_number, record.part): record for record in records if self._is_whole(record)}

    def has_priorities(self, round_number: int) -> bool:
        """Whether the priorities of a round are on disk, and what a manifest says they are."""
        path = priorities_path(self._folder, round_number)
        recorded = read_json(self._folder / MANIFEST)["rounds"] if self.complete else []
        if not path.exists() or round_number >= len(recorded):
            return path.exists()
        return bool(sha256_of(path) == recorded[round_number]["priorities"]["sha256"])

    def append(self, record: PartRecord) -> None:
        """Record a finished part."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record.to_json()) + "\n")

    def close(self) -> None:
        """Remove the journal: the manifest tells everything now."""
        self._path.unlink(missing_ok=True)

    def _lines(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        lines = []
        for text in self._path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                lines.append(json.loads(text))
            except json.JSONDecodeError:
                break  # the line that was being written when the run was killed
        return lines

    def _is_whole(self, record: PartRecord) -> bool:
        path = part_path(self._folder, record.round_number, record.part)
        return path.exists() and path.stat().st_size == record.bytes and sha256_of(path) == record.sha256


def _refuse_other(found: dict[str, Any], plan: _Plan, folder: Path) -> None:
    if found.get("graph_fingerprint") != plan.graph_fingerprint:
        raise FolderError(
            f"{folder} holds samples of another graph; choose another --run, or delete this folder to sample again"
        )
    theirs = found.get("rings", {})
    for name, value in plan.rings.items():
        if theirs.get(name) != value:
            raise FolderError(
                f"{folder} was made with rings.{name} = {theirs.get(name)!r}, now it is {value!r}; "
                "choose another --run, or delete this folder to sample again"
            )
