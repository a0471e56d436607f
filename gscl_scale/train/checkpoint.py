"""Checkpoints: whole files with checksums; the newest valid one is used, a damaged one is named and passed over."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from gscl_scale.errors import FolderError
from gscl_scale.files import publish, read_json, sha256_of, write_json
from gscl_scale.runtime import Console

_MANIFEST = "manifest.json"
_KEEP = 2


@dataclass(frozen=True)
class Position:
    """Where training stands: steps and whole epochs that are done; `best` is the best validation figure, and when."""

    step: int = 0
    epoch: int = 0
    best: float = -1.0
    best_epoch: int = 0
    finished: bool = False


class Checkpoints:
    """The checkpoints of one training, all made with the same configuration and samples."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self._folder = folder
        self.fingerprint = fingerprint

    def save(self, state: dict[str, Any], position: Position, best: bool) -> None:
        """Publish a checkpoint, record it, and drop older ones; `best` keeps a copy of its own."""
        entries = self._entries()
        name = f"step-{position.step:08d}.pt"
        entries = [entry for entry in entries if entry["file"] != name]
        entries.append({"file": name, "sha256": self._write(name, state), **asdict(position)})
        dropped, kept = entries[:-_KEEP], entries[-_KEEP:]
        best_entry = self._manifest().get("best")
        if best:
            best_entry = {"file": "best.pt", "sha256": self._write("best.pt", state), **asdict(position)}
        write_json(self._folder / _MANIFEST, {"fingerprint": self.fingerprint, "checkpoints": kept, "best": best_entry})
        for entry in dropped:
            (self._folder / entry["file"]).unlink(missing_ok=True)

    def newest(self, console: Console) -> tuple[dict[str, Any], Position] | None:
        """The newest checkpoint whose bytes are what was recorded, with its position."""
        for entry in reversed(self._entries()):
            path = self._folder / entry["file"]
            if path.exists() and sha256_of(path) == entry["sha256"]:
                return _load(path), _position(entry)
            console.say(f"{path} is {'damaged' if path.exists() else 'missing'}: the checkpoint before it is used")
            console.event("train", "checkpoint_damaged", file=entry["file"])
        return None

    def is_finished(self) -> bool:
        """Whether training came to its end."""
        entries = self._entries()
        return bool(entries and entries[-1]["finished"])

    def chosen(self) -> tuple[dict[str, Any], Position]:
        """The model to use: the best on validation where validation was on, else the last."""
        best, entries = self._manifest().get("best"), self._entries()
        if not (best or entries):
            raise FolderError(f"{self._folder} holds no checkpoint; run gscl-scale train first")
        entry = best or entries[-1]
        path = self._folder / entry["file"]
        if not path.exists() or sha256_of(path) != entry["sha256"]:
            raise FolderError(
                f"{path}: expected the bytes that training recorded, got "
                f"{'other content' if path.exists() else 'no file'}; delete {self._folder} and train again"
            )
        return _load(path), _position(entry)

    def _write(self, name: str, state: dict[str, Any]) -> str:
        write_state(self._folder / name, state)
        return sha256_of(self._folder / name)

    def _manifest(self) -> dict[str, Any]:
        if not (self._folder / _MANIFEST).exists():
            return {}
        manifest = read_json(self._folder / _MANIFEST)
        if manifest.get("fingerprint") != self.fingerprint:
            raise FolderError(
                f"{self._folder} holds checkpoints of other samples or another configuration; "
                "choose another --run, or delete this folder to train again"
            )
        return manifest

    def _entries(self) -> list[dict[str, Any]]:
        return list(self._manifest().get("checkpoints", []))


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Publish tensors by name; of a path torch would write the name into the file, and ours has a process id."""
    with publish(path) as temporary, temporary.open("wb") as file:
        torch.save(state, file)


def _load(path: Path) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state


def _position(entry: dict[str, Any]) -> Position:
    return Position(**{field.name: entry[field.name] for field in fields(Position)})
