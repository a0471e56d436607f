"""Arrays of numpy, alone and in archives, with other heads, numbers, shapes and types."""

import io
import struct
import zipfile
import zlib
from random import Random

import numpy as np

from tests.hostile.mutate.blind import EDGES, NAMES, Executes, any_bytes, pick

_TYPES = (
    "int8", "int16", "int32", "int64", "uint64", "float16", "float32", "float64", "bool", "complex128", "U3", "S3",
    ">i8",
)  # fmt: skip
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def npy(array: np.ndarray) -> bytes:
    """An array as numpy saves it."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=array.dtype == object)
    return file.getvalue()


def any_npy(rng: Random, content: bytes) -> bytes:
    """An array file with another head, other numbers, or other bytes."""
    return pick(
        rng,
        (3, lambda: any_bytes(rng, content)),
        (2, lambda: _forged_head(rng)),
        (5, lambda: _other_array(rng, content)),
    )


def _other_array(rng: Random, content: bytes) -> bytes:
    try:
        array = np.load(io.BytesIO(content))
    except ValueError:  # it has been changed before
        return any_bytes(rng, content)
    return npy(any_array(rng, array))


def any_array(rng: Random, array: np.ndarray) -> np.ndarray:
    """An array with other numbers, or of another type or shape."""
    numbers = array.dtype.kind in "iufb"
    shaped = (
        lambda: array.reshape(rng.choice(((-1,), (1, -1), (-1, 1), (1, 1, -1)))),
        lambda: array[:0],
        lambda: array[..., :0],
        lambda: array.T,
        lambda: array[:-1],
    )
    odd = np.array(["a", "b"]), np.array([b"x"]), np.zeros((0, 0)), np.array(0), np.array([1 + 2j])
    with np.errstate(all="ignore"):
        return pick(
            rng,
            (40 if numbers and array.size else 0, lambda: _other_numbers(rng, array.copy())),
            (15 if numbers else 0, lambda: array.astype(rng.choice(_TYPES))),
            (15, lambda: rng.choice(shaped)()),
            (10, lambda: np.array([Executes(), 1], object)),
            (5, lambda: np.zeros((3, 4), [("a", "i4"), ("b", "f8")])),
            (5, lambda: np.array(rng.choice(EDGES[:-4]))),
            (5, lambda: np.concatenate([array.reshape(-1)] * 3)),
            (5, lambda: rng.choice(odd)),
        )


def _other_numbers(rng: Random, array: np.ndarray) -> np.ndarray:
    kind = array.dtype.kind
    for _ in range(rng.choice((1, 1, 5))):
        number = rng.choice((np.nan, np.inf, -np.inf, 1e308, 1e-320, -0.0, 3.5)) if kind == "f" else rng.choice(EDGES)
        if kind in "iu":
            number = max(min(number, np.iinfo(array.dtype).max), np.iinfo(array.dtype).min)
        array.reshape(-1)[rng.randrange(array.size)] = bool(number % 2) if kind == "b" else number
    return array


def _forged_head(rng: Random) -> bytes:
    shapes = (10**15,), (2, 10**12), (2**62, 2**62), (0, 10**18), (-1,), (2, -5), (2**31, 1), (3 * 10**8, 2)
    descr = rng.choice(("<i8", "<f4", "|O", "<U1000000000", "|V99999999", "<M8[ns]", "xx", "|b1"))
    plausible = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {rng.choice(shapes)}, }}"
    text = rng.choice((plausible, "(" * 5000, "{}", "1" * 9000)).encode() + b"\n"
    version = rng.choice((1, 2, 3, 9))
    size = struct.pack("<H", len(text) & 0xFFFF) if version == 1 else struct.pack("<I", rng.choice((len(text), 2**31)))
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + bytes(64)


# --- archives --------------------------------------------------------------------------------------------------------


def any_npz(rng: Random, content: bytes) -> bytes:
    """An archive of arrays with other members."""
    return pick(
        rng,
        (250, lambda: any_bytes(rng, content)),
        (5, lambda: bomb_npz(rng)),
        (745, lambda: _other_archive(rng, members_of(content))),
    )


def _other_archive(rng: Random, members: dict[str, bytes]) -> bytes:
    added = "num_nodes", "ids", "y", "x", "train_mask", "x_data", "x_shape"
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(list(members))
        kind = rng.choices(("removed", "renamed", "added", "changed"), (8, 6, 6, 80))[0]
        if kind == "removed":
            del members[name]
        elif kind == "renamed":
            members[rng.choice(NAMES).replace("\0", "n")[:200] + rng.choice((".npy", ""))] = members[name]
        elif kind == "added":
            members[f"{rng.choice(added)}.npy"] = npy(any_array(rng, np.arange(4)))
        else:
            members[name] = any_npy(rng, members[name])
        if not members:
            break
    return zipped(members, rng.choice(_METHODS))


def members_of(content: bytes) -> dict[str, bytes]:
    """The members of a zip archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(members: dict[str, bytes], method: int) -> bytes:
    """A zip archive without dates, so that it has the same bytes again."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name or "nameless"), content, method)
    return file.getvalue()


def bomb_npz(rng: Random, gigabytes: int | None = None) -> bytes:
    """An archive of few megabytes with an array of many gigabytes, which is really in it.

    Blocks of deflated zeros are repeated, which no library does; the checksum is wrong, which is seen only at the end.
    """
    size, block = (gigabytes or rng.choice((3, 5, 50))) << 30, 1 << 24
    text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': (2, {size // 16}), }}".ljust(117).encode() + b"\n"
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text
    first, zeros = (_deflated(content) for content in (head, bytes(block)))
    data, name = first + zeros * (size // block) + b"\x03\x00", b"edge_index.npy"
    extra = struct.pack("<HHQQ", 1, 16, len(head) + size, len(data))
    about = struct.pack("<I", 0) + b"\xff" * 8 + struct.pack("<2H", len(name), len(extra))
    local = struct.pack("<4s5H", b"PK\3\4", 45, 0, 8, 0, 0) + about + name + extra
    central = struct.pack("<4s6H", b"PK\1\2", 45, 45, 0, 8, 0, 0) + about + bytes(14) + name + extra
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, len(central), len(local) + len(data), 0)
    return local + data + central + end


def _deflated(content: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush(zlib.Z_FULL_FLUSH)
