"""Checkpoints: whole files with checksums; the newest valid one is used, a damaged one is named and passed over."""

import pickle
import struct
import warnings
import zipfile
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NotRequired

import torch
from typing_extensions import TypedDict

from gscl_scale.errors import FolderError
from gscl_scale.io.atomic import publish
from gscl_scale.io.checksum import sha256_of
from gscl_scale.io.json import read_json, write_json
from gscl_scale.io.validate import Count, FileName, size_of
from gscl_scale.runtime.console import Console
from gscl_scale.text import listed, shortened

_MANIFEST = "manifest.json"
_KEEP = 2
_MOST_PICKLE = 1 << 26  # bytes of names and shapes
_DAMAGE = (  # what reading foreign bytes raises, of which torch runs nothing
    RuntimeError, pickle.UnpicklingError, EOFError, OSError, ValueError, TypeError, LookupError, AttributeError,
    AssertionError, OverflowError, MemoryError, struct.error, zipfile.BadZipFile, NotImplementedError,
)  # fmt: skip


@dataclass(frozen=True)
class Position:
    """Where training stands: steps and whole epochs that are done; `best` is the best validation figure, and when."""

    step: int = 0
    epoch: int = 0
    best: float = -1.0
    best_epoch: int = 0
    finished: bool = False


class _Entry(TypedDict):
    file: FileName
    sha256: str
    step: Count
    epoch: Count
    best: float
    best_epoch: Count
    finished: bool


class _Manifest(TypedDict):
    fingerprint: str
    checkpoints: list[_Entry]
    best: NotRequired[_Entry | None]


class Checkpoints:
    """The checkpoints of one training, all made with the same configuration and samples."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder
        self.fingerprint = fingerprint

    def save(self, state: dict[str, Any], position: Position, best: bool) -> None:
        """Publish a checkpoint, record it, and drop older ones; `best` keeps a copy of its own."""
        entries = self._entries()
        name = f"step-{position.step:08d}.pt"
        entries = [entry for entry in entries if entry["file"] != name]
        entries.append({"file": name, "sha256": self._write(name, state), **asdict(position)})
        kept, best_entry = entries[-_KEEP:], self._manifest().get("best")
        if best:
            name = f"best-{position.step:08d}.pt"  # the one before stays until this is recorded
            best_entry = {"file": name, "sha256": self._write(name, state), **asdict(position)}
        write_json(self.folder / _MANIFEST, {"fingerprint": self.fingerprint, "checkpoints": kept, "best": best_entry})
        recorded = {entry["file"] for entry in (*kept, best_entry) if entry}
        for path in (*self.folder.glob("step-*.pt"), *self.folder.glob("best*.pt")):
            if path.name not in recorded:
                path.unlink(missing_ok=True)

    def newest(self, console: Console) -> tuple[dict[str, Any], Position] | None:
        """The newest checkpoint whose bytes are what was recorded, with its position."""
        for entry in reversed(self._entries()):
            path = self.folder / entry["file"]
            if path.exists() and sha256_of(path) == entry["sha256"]:
                return load_state(path), _position(entry)
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
            raise FolderError(f"{self.folder} holds no checkpoint; run gscl-scale train first")
        entry = best or entries[-1]
        path = self.folder / entry["file"]
        if not path.exists() or sha256_of(path) != entry["sha256"]:
            raise FolderError(
                f"{path}: expected the bytes that training recorded, got "
                f"{'other content' if path.exists() else 'no file'}; delete {self.folder} and train again"
            )
        return load_state(path), _position(entry)

    def _write(self, name: str, state: dict[str, Any]) -> str:
        write_state(self.folder / name, state)
        return sha256_of(self.folder / name)

    def _manifest(self) -> dict[str, Any]:
        if not (self.folder / _MANIFEST).exists():
            return {}
        cure = f"delete {self.folder} and train again"
        manifest: Any = read_json(self.folder / _MANIFEST, _Manifest, cure)
        if manifest.get("fingerprint") != self.fingerprint:
            raise FolderError(
                f"{self.folder} holds checkpoints of other samples or another configuration; "
                "choose another --run, or delete this folder to train again"
            )
        return manifest

    def _entries(self) -> list[dict[str, Any]]:
        return list(self._manifest().get("checkpoints", []))


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Publish tensors by name; of a path torch would write the name into the file, and ours has a process id."""
    with publish(path) as temporary, temporary.open("wb") as file:
        torch.save(state, file)


def load_state(path: Path) -> dict[str, Any]:
    """Tensors by name; only tensors and plain values are made of the file, and no code in it is run."""
    try:
        _refuse_bomb(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickles of another protocol, which it then refuses
            state = torch.load(path, map_location="cpu", weights_only=True)
    except _DAMAGE as error:
        told = str(error).partition("WeightsUnpickler error:")[2] or str(error)
        raise FolderError(
            f"{path} is no checkpoint of tensors and plain values: {shortened(told, 200) or type(error).__name__}; "
            f"delete {path.parent} and train again"
        ) from None
    if not isinstance(state, dict):
        raise FolderError(f"{path} is no checkpoint: expected tensors by name; delete {path.parent} and train again")
    return state


def _refuse_bomb(path: Path) -> None:
    """torch writes an archive whose members are stored as they are: none is larger than the file."""
    size = size_of(path)
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            stored = member.compress_type == zipfile.ZIP_STORED and member.file_size <= size
            if not stored or (member.filename.endswith("data.pkl") and member.file_size > _MOST_PICKLE):
                raise ValueError(f"its part {shortened(member.filename, 60)} is larger than it may be, or compressed")


def fill(module: torch.nn.Module, state: Any, where: Path) -> None:
    """Let a module have the tensors of a state; FolderError where names, shapes, types or numbers are not its own."""
    expected, cure = module.state_dict(), f"delete {where if where.is_dir() else where.parent} and train again"
    if not isinstance(state, dict) or set(state) != set(expected):
        raise FolderError(f"{where}: expected the tensors {listed(sorted(expected), 4)}, got others; {cure}")
    for name, ours in expected.items():
        if not _is_like(theirs := state[name], ours):
            got = (
                f"{theirs.dtype} of {tuple(theirs.shape)}"
                if isinstance(theirs, torch.Tensor)
                else type(theirs).__name__
            )
            raise FolderError(
                f"{where}: {name} expected finite numbers, {ours.dtype} of {tuple(ours.shape)}, got "
                f"{shortened(got, 120)}; {cure}"
            )
    module.load_state_dict(state)


def fill_optimizer(optimizer: torch.optim.Optimizer, state: Any, where: Path) -> None:
    """The same for an optimiser: its moments; its settings are those that it has."""
    groups = optimizer.state_dict()["param_groups"]
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    held = state.get("state") if isinstance(state, dict) else None
    if not isinstance(held, dict) or not all(
        isinstance(at, int) and 0 <= at < len(parameters) and _is_moment(values, parameters[at])
        for at, values in held.items()
    ):
        raise FolderError(f"{where} holds no state of this optimiser; delete {where} and train again")
    optimizer.load_state_dict({"state": held, "param_groups": groups})


def _is_moment(values: Any, parameter: torch.Tensor) -> bool:
    if not isinstance(values, dict) or set(values) != {"step", "exp_avg", "exp_avg_sq"}:
        return False
    return _is_like(values["step"], torch.zeros(())) and all(
        _is_like(values[name], parameter) for name in ("exp_avg", "exp_avg_sq")
    )


def _is_like(theirs: Any, ours: torch.Tensor) -> bool:
    if not isinstance(theirs, torch.Tensor) or (theirs.dtype, theirs.layout) != (ours.dtype, ours.layout):
        return False
    return theirs.shape == ours.shape and theirs.device.type == "cpu" and bool(torch.isfinite(theirs).all())


def _position(entry: dict[str, Any]) -> Position:
    return Position(**{field.name: entry[field.name] for field in fields(Position)})
