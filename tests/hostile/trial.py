"""One mutated input: made from its number alone, and read under guard."""

import contextlib
import gc
import hashlib
import json
import os
import shutil
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from random import Random

from gscl_scale.errors import GsclError
from gscl_scale.machine import peak_memory, reset_peak_memory
from tests.hostile.mutate.arrays import any_npy, any_npz
from tests.hostile.mutate.blind import any_bytes
from tests.hostile.mutate.pickles import any_checkpoint, any_pickle
from tests.hostile.mutate.tables import any_arrow, any_parquet
from tests.hostile.mutate.text import any_csv, any_json, any_json_lines, any_packed_table, any_yaml
from tests.hostile.readers import LONGEST, READERS, Reader

MEMORY = 2_000_000_000
VALID = "an input that nobody has changed"
_MUTATE = {
    ".json": any_json, ".jsonl": any_json_lines, ".yaml": any_yaml, ".npz": any_npz, ".npy": any_npy,
    ".arrow": any_arrow, ".parquet": any_parquet, ".csv": any_csv, ".pt": any_checkpoint, ".gz": any_packed_table,
    **{f".{piece}": any_pickle for piece in ("x", "tx", "allx", "y", "ty", "ally", "graph")},
}  # fmt: skip
_FORBIDDEN = (
    "pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "os.fork", "socket.connect",
)  # fmt: skip
_CHANGING = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "shutil.rmtree")


def name_of(reader: str, seed: int, number: int) -> str:
    """The folder of an input."""
    return f"{reader.replace(' ', '-').replace('/', '-')}-{seed}-{number}"


def mutated(reader: Reader, seed: int, number: int, corpus: Path, folder: Path) -> Random:
    """Make an input in a folder; the rest of its random numbers."""
    rng = Random(f"{seed}/{reader.name}/{number}")
    _copy(reader, corpus, folder)
    targets = sorted({path for pattern in reader.targets for path in folder.glob(pattern) if path.is_file()})
    for path in rng.sample(targets, min(len(targets), rng.choice((1, 1, 1, 2)))):
        if rng.random() < 0.03:
            _special(rng, path)
            continue
        before = path.read_bytes()
        after = _changed(rng, path.suffix, before)
        path.write_bytes(after)
        if rng.random() < 0.75:
            repair(folder, path, before, after)
    return rng


def _changed(rng: Random, suffix: str, content: bytes) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _MUTATE.get(suffix, any_bytes)(rng, content)
        except Exception:  # noqa: BLE001  (what was changed before cannot be taken apart again)
            return any_bytes(rng, content)


def _copy(reader: Reader, corpus: Path, folder: Path) -> None:
    for need in reader.needs:
        source, target = corpus / need, folder / need
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copyfile(source, target)


def warm_up(name: str, corpus: Path, work: Path) -> None:
    """Read what nobody has changed: libraries are imported then, and it must be read."""
    folder = work / "warm"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _copy(READERS[name], corpus, folder)
    os.chdir(folder)
    READERS[name].read(Random(VALID))
    os.chdir("/")


def _special(rng: Random, path: Path) -> None:
    """Put something in the place of a file that is no file, or leads elsewhere, or nothing."""
    path.unlink()
    secret = os.path.relpath(path.anchor + "etc/passwd", path.parent)
    kind = rng.choice(("pipe", "folder", "nothing", "/dev/zero", "/dev/tty", secret, path.name, "nowhere"))
    if kind != "nothing":
        put_special(path, kind)


def put_special(path: Path, kind: str) -> None:
    """A pipe, a folder, or a link to what is named."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(kind)


def repair(folder: Path, path: Path, before: bytes, after: bytes) -> None:
    """Bring the manifests up to date with a changed file: whoever can write the file can write its checksum, too."""
    if path.suffix == ".faiss":  # docs/security.md: an index of a stranger is not opened
        return
    old, new = (hashlib.sha256(content).hexdigest() for content in (before, after))
    for manifest in (one for name in ("manifest.json", "index.json", "progress.jsonl") for one in folder.rglob(name)):
        if manifest == path or not manifest.is_file():
            continue
        text = manifest.read_text(errors="surrogateescape")
        lines = text.splitlines() if manifest.suffix == ".jsonl" else [text]
        if old in text:
            with contextlib.suppress(ValueError, RecursionError):  # it has been changed, too
                told = [json.dumps(_with_checksum(json.loads(line), old, new, len(after))) for line in lines]
                manifest.write_text("\n".join(told) + "\n")


def _with_checksum(value: object, old: str, new: str, size: int) -> object:
    if isinstance(value, list):
        return [_with_checksum(one, old, new, size) for one in value]
    if isinstance(value, dict):
        told = {key: _with_checksum(one, old, new, size) for key, one in value.items() if key != "checksum"}
        return {**told, "bytes": size} if "bytes" in told and old in value.values() else told
    return new if value == old else value


class Guard:
    """Watches what this process does while an input is read: nothing is run, unpickled, or changed elsewhere."""

    def __init__(self) -> None:
        self._inside: tuple[str, ...] = ()
        self._taken: tuple[str, ...] = ()
        self.seen: list[str] = []
        sys.addaudithook(self._audit)
        gc.collect()
        gc.freeze()  # the libraries: what an input leaves is looked for among its own objects

    @contextlib.contextmanager
    def watching(self, folder: Path, taken: tuple[str, ...] = ()):
        """Note what is forbidden inside the block, but for events that are taken."""
        self.seen, self._taken = [], taken
        self._inside = (f"{folder}/", f"{tempfile.gettempdir()}/", "/dev/")
        try:
            yield
        finally:
            self._inside = ()

    def _audit(self, event: str, arguments: tuple) -> None:
        if self._inside and (what := self._forbidden(event, arguments)) and not _for_kernels():
            self.seen.append(what)

    def _forbidden(self, event: str, arguments: tuple) -> str:
        if event in _FORBIDDEN and event not in self._taken:
            return f"{event} {arguments!r}"[:300]
        if not arguments or not isinstance(arguments[0], (str, Path)):
            return ""
        path = os.path.abspath(arguments[0])  # noqa: PTH100  (what it is called, not where links lead)
        outside = not path.startswith(self._inside)
        if event == "open":
            writes = isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            nameless = path == tempfile.gettempdir()  # a file without a name, which goes with its opener
            if path == "/etc/passwd" or "/outside/" in path or (writes and outside and not nameless):
                return f"open {path}"
        return f"{event} {path}" if event in _CHANGING and arguments[-1] in (-1, None) and outside else ""


def _for_kernels() -> bool:
    """Whether numba is at work, which keeps its own compiled code as pickles."""
    frame = sys._getframe(2)
    while frame is not None and "/numba/" not in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None


def read(reader: Reader, rng: Random, folder: Path, guard: Guard) -> dict[str, object]:
    """Read the input of a folder; what happened."""
    os.chdir(folder)
    os.environ["GSCL_HOSTILE_MARK"] = str(folder.parent / "executed")
    reset_peak_memory()
    result: dict[str, object] = {"outcome": "read"}
    with guard.watching(folder, reader.taken), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            reader.read(rng)
        except GsclError as error:
            result = _sentence(error)
        except (Exception, SystemExit) as error:  # noqa: BLE001  (that is what is looked for)
            result = {"outcome": "traceback", "what": _short(error)}
    os.chdir("/")
    gc.collect()
    peak = peak_memory()
    if guard.seen:
        result = {"outcome": "forbidden", "what": "; ".join(guard.seen)[:2000]}
    if (folder.parent / "executed").exists() or list(folder.glob("executed-*")):
        result = {"outcome": "executed", "what": "code of the input was run"}
    if peak > MEMORY:
        result = {"outcome": "memory", "what": f"{peak} bytes: {result.get('what', 'read')}"}
    return {**result, "peak": peak}


def _sentence(error: GsclError) -> dict[str, object]:
    text = str(error)
    if "\n" in text or not text.strip() or len(text) > LONGEST:
        return {"outcome": "no sentence", "what": f"{len(text)} letters: {text[:600]!r}\n{_short(error)}"}
    return {"outcome": "refused", "told": text}


def _short(error: BaseException) -> str:
    return "".join(traceback.format_exception(error, limit=-8))[-3000:]


def one(name: str, seed: int, number: int, corpus: Path, work: Path, guard: Guard) -> dict[str, object]:
    """Make an input, read it, and take it away again unless something is wrong with the reader."""
    folder = work / name_of(name, seed, number)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    reader = READERS[name]
    rng = mutated(reader, seed, number, corpus, folder)
    result = read(reader, rng, folder, guard)
    if result["outcome"] in ("read", "refused"):
        shutil.rmtree(folder)
    return result
