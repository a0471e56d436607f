"""Checkpoints: files with checksums. The newest intact one is used; a damaged one is reported and skipped."""

import pickle
import struct
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired

from typing_extensions import TypedDict

from gscl_scale.errors import FolderError
from gscl_scale.io.atomic import publish_file
from gscl_scale.io.checksum import sha256_of
from gscl_scale.io.json import read_json, write_json
from gscl_scale.io.validate import Count, FileName, size_of
from gscl_scale.runtime.console import Console
from gscl_scale.text import join_names, shortened

if TYPE_CHECKING:  # whoever only asks which checkpoints there are does not wait for it
    import torch

_MANIFEST = "manifest.json"
_KEEP = 2
_MOST_PICKLE = 1 << 26  # bytes of names and shapes
_DAMAGE = (  # what torch raises for damaged bytes, of which it runs nothing
    RuntimeError, pickle.UnpicklingError, EOFError, OSError, ValueError, TypeError, LookupError, AttributeError,
    AssertionError, OverflowError, MemoryError, struct.error, zipfile.BadZipFile, NotImplementedError,
)  # fmt: skip


@dataclass(frozen=True)
class Position:
    """Steps and epochs that are finished; `best` is the best validation accuracy, reached in `best_epoch`.

    seen   anchors taken of the epoch that has begun; -1 in checkpoints of earlier versions
    """

    step: int = 0
    epoch: int = 0
    best: float = -1.0
    best_epoch: int = 0
    finished: bool = False
    seen: int = 0


class _Entry(TypedDict):
    file: FileName
    sha256: str
    step: Count
    epoch: Count
    best: float
    best_epoch: Count
    finished: bool
    seen: NotRequired[Count]


class _Manifest(TypedDict):
    fingerprint: str
    checkpoints: list[_Entry]
    best: NotRequired[_Entry | None]


class Checkpoints:
    """The checkpoints of one training, all of the same configuration and samples.

    A state maps names of parts (model, optimizer, ...) to their values; `load_weights` and `load_optimizer` check them.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder
        self.fingerprint = fingerprint

    def save(self, state: Mapping[str, object], position: Position, best: bool) -> None:
        """Publish a checkpoint, record it, and remove older ones; `best` also keeps a copy as the best model."""
        manifest = self._manifest()
        entry = self._write(f"step-{position.step:08d}.pt", state, position)
        entries = [*(old for old in manifest["checkpoints"] if old["file"] != entry["file"]), entry][-_KEEP:]
        best_entry = manifest.get("best")
        if best:  # the earlier best model stays until this one is recorded
            best_entry = self._write(f"best-{position.step:08d}.pt", state, position)
        write_json(self.folder / _MANIFEST, {**manifest, "checkpoints": entries, "best": best_entry})
        recorded = {entry["file"] for entry in (*entries, best_entry) if entry}
        for path in (*self.folder.glob("step-*.pt"), *self.folder.glob("best*.pt")):
            if path.name not in recorded:
                path.unlink(missing_ok=True)

    def newest(self, console: Console) -> tuple[dict[str, object], Position] | None:
        """The newest checkpoint whose bytes are as recorded, with its position."""
        for entry in reversed(self._manifest()["checkpoints"]):
            path = self.folder / entry["file"]
            if _is_intact(path, entry):
                return load_state(path), _position(entry)
            console.say(f"{path} is {'damaged' if path.exists() else 'missing'}: using the checkpoint before it")
            console.event("train", "checkpoint_damaged", file=entry["file"])
        return None

    def is_finished(self) -> bool:
        """Whether training has ended."""
        entries = self._manifest()["checkpoints"]
        return bool(entries and entries[-1]["finished"])

    def chosen(self) -> tuple[dict[str, object], Position]:
        """The model to use: the best on validation where validation was on, otherwise the last."""
        entry = self._chosen()
        return load_state(self.folder / entry["file"]), _position(entry)

    def chosen_position(self) -> Position:
        """Where in the training the model to use was saved."""
        return _position(self._chosen())

    def _chosen(self) -> _Entry:
        manifest = self._manifest()
        entries, best = manifest["checkpoints"], manifest.get("best")
        if not (best or entries):
            raise FolderError(f"{self.folder} holds no checkpoint; run gscl-scale train first")
        entry = best or entries[-1]
        path = self.folder / entry["file"]
        if not _is_intact(path, entry):
            raise FolderError(
                f"{path} {'does not match its checksum' if path.exists() else 'is missing'}; "
                f"delete {self.folder} and train again"
            )
        return entry

    def _write(self, name: str, state: Mapping[str, object], position: Position) -> _Entry:
        write_state(self.folder / name, state)
        entry: Any = {"file": name, "sha256": sha256_of(self.folder / name), **asdict(position)}
        return entry

    def _manifest(self) -> _Manifest:
        path = self.folder / _MANIFEST
        if not path.exists():
            return {"fingerprint": self.fingerprint, "checkpoints": []}
        manifest = read_json(path, _Manifest, f"delete {self.folder} and train again")
        if manifest["fingerprint"] != self.fingerprint:
            raise FolderError(
                f"{self.folder} holds checkpoints of other samples or another configuration; "
                "choose another --run, or delete this folder to train again"
            )
        return manifest


def write_state(path: Path, state: object) -> None:
    """Publish tensors by name; torch gets an open file, for it would write the temporary path into the content."""
    import torch

    with publish_file(path) as temporary, temporary.open("wb") as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:  # torch ends its archive after a failed write too, and fails again
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def load_state(path: Path) -> dict[str, object]:
    """Tensors by name; only tensors and plain values are read from the file, and no code in it is run."""
    import torch

    try:
        _refuse_bomb(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickles of another protocol, which it then refuses
            state = torch.load(path, map_location="cpu", weights_only=True)
    except _DAMAGE as error:
        reason = str(error).partition("WeightsUnpickler error:")[2] or str(error)
        raise FolderError(
            f"{path} is no checkpoint of tensors and plain values: {shortened(reason, 200) or type(error).__name__}; "
            f"delete {path.parent} and train again"
        ) from None
    if not isinstance(state, dict):
        raise FolderError(f"{path} is no checkpoint: expected tensors by name; delete {path.parent} and train again")
    return state


def _refuse_bomb(path: Path) -> None:
    """torch writes archives without compression: no member of a real one is larger than the file."""
    size = size_of(path)
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            stored = member.compress_type == zipfile.ZIP_STORED and member.file_size <= size
            if not stored or (member.filename.endswith("data.pkl") and member.file_size > _MOST_PICKLE):
                raise ValueError(f"its part {shortened(member.filename, 60)} is larger than it may be, or compressed")


def load_weights(module: "torch.nn.Module", state: object, where: Path) -> None:
    """Load the tensors of a state into a module; FolderError where names, shapes, types or numbers do not fit."""
    import torch

    expected, cure = module.state_dict(), f"delete {where if where.is_dir() else where.parent} and train again"
    if not isinstance(state, dict) or set(state) != set(expected):
        raise FolderError(f"{where}: expected the tensors {join_names(sorted(expected), 4)}, got others; {cure}")
    for name, ours in expected.items():
        if not _is_like(theirs := state[name], ours):
            is_tensor = isinstance(theirs, torch.Tensor)
            got = f"{theirs.dtype} of {tuple(theirs.shape)}" if is_tensor else type(theirs).__name__
            raise FolderError(
                f"{where}: {name} expected finite numbers, {ours.dtype} of {tuple(ours.shape)}, got "
                f"{shortened(got, 120)}; {cure}"
            )
    module.load_state_dict(state)


def load_optimizer(optimizer: "torch.optim.Optimizer", state: object, where: Path) -> None:
    """The same for the moments of an optimiser, which keeps its own settings."""
    groups = optimizer.state_dict()["param_groups"]
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    moments = state.get("state") if isinstance(state, dict) else None
    if not isinstance(moments, dict) or not all(
        isinstance(at, int) and 0 <= at < len(parameters) and _is_moment(values, parameters[at])
        for at, values in moments.items()
    ):
        raise FolderError(f"{where} holds no state of this optimiser; delete {where} and train again")
    optimizer.load_state_dict({"state": moments, "param_groups": groups})


def _is_moment(values: object, parameter: "torch.Tensor") -> bool:
    import torch

    expected = {"step": torch.zeros(()), "exp_avg": parameter, "exp_avg_sq": parameter}
    if not isinstance(values, dict) or set(values) != set(expected):
        return False
    return all(_is_like(values[name], ours) for name, ours in expected.items())


def _is_like(theirs: object, ours: "torch.Tensor") -> bool:
    import torch

    if not isinstance(theirs, torch.Tensor) or (theirs.dtype, theirs.layout) != (ours.dtype, ours.layout):
        return False
    return theirs.shape == ours.shape and theirs.device.type == "cpu" and bool(torch.isfinite(theirs).all())


def _is_intact(path: Path, entry: _Entry) -> bool:
    return path.exists() and sha256_of(path) == entry["sha256"]


def _position(entry: _Entry) -> Position:
    values: Mapping[str, Any] = {"seen": -1, **entry}
    return Position(**{field.name: values[field.name] for field in fields(Position)})
