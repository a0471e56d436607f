"""From a valid file to one that nobody would write: blindly, and by what its kind is made of."""

import gzip
import io
import json
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import torch

EDGES = (0, 1, -1, 2, 127, 255, 2**15, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, -(2**31), -(2**63), 10**30)
NAMES = ("../outside/secret", "/etc/passwd", "..", ".", "", "a/../../outside/secret", "\0", "x" * 5000, "\U0001f600")
DTYPES = (
    "int8",
    "int16",
    "int32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "bool",
    "complex128",
    "U3",
    "S3",
    ">i8",
)


BOMBS: list[Path] = []  # Parquet files that are small and hold much: too costly to be made for each input


class Executes:
    """A pickle of this makes a file when it is loaded."""

    def __reduce__(self):
        return os.mkdir, (os.environ.get("GSCL_HOSTILE_MARK", "executed-by-a-pickle"),)


# --- bytes -----------------------------------------------------------------------------------------------------------


def any_bytes(rng: Random, content: bytes) -> bytes:
    """Some blind changes."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        data = rng.choice(_BLIND)(rng, data)
    return bytes(data)


def _at(rng: Random, data: bytearray) -> int:
    """A place, more often near the beginning or the end, where heads and tails are."""
    size = max(1, len(data))
    return rng.choice((rng.randrange(size), rng.randrange(min(size, 64)), size - 1 - rng.randrange(min(size, 256))))


def _flip(rng: Random, data: bytearray) -> bytearray:
    for _ in range(rng.choice((1, 1, 4, 32))):
        if data:
            data[_at(rng, data)] ^= 1 << rng.randrange(8)
    return data


def _set(rng: Random, data: bytearray) -> bytearray:
    if data:
        data[_at(rng, data)] = rng.choice((0, 0xFF, 0x7F, 0x80, rng.randrange(256)))
    return data


def _number(rng: Random, data: bytearray) -> bytearray:
    at, kind = _at(rng, data), rng.choice(["<i", "<q", ">i", "<h"])
    value = struct.pack("<Q", rng.choice(EDGES) & (2**64 - 1))[: struct.calcsize(kind)]
    data[at : at + len(value)] = value
    return data


def _cut(rng: Random, data: bytearray) -> bytearray:
    return data[: rng.randrange(len(data) + 1)]


def _drop(rng: Random, data: bytearray) -> bytearray:
    at = _at(rng, data)
    del data[at : at + rng.choice((1, 4, 64, 1000))]
    return data


def _double(rng: Random, data: bytearray) -> bytearray:
    at, size = _at(rng, data), rng.choice((1, 8, 64, 4096))
    data[at:at] = data[at : at + size] * rng.choice((1, 2, 50))
    return data


def _insert(rng: Random, data: bytearray) -> bytearray:
    at = _at(rng, data)
    data[at:at] = rng.choice((b"\0" * 8, rng.randbytes(16), b"\xff" * 4, b"\n", b'"', b"\xef\xbb\xbf", b"\x00\xd8"))
    return data


def _zero(rng: Random, data: bytearray) -> bytearray:
    at = _at(rng, data)
    size = min(rng.choice((4, 64, 4096)), len(data) - at)
    data[at : at + size] = bytes(max(0, size))
    return data


def _swap(rng: Random, data: bytearray) -> bytearray:
    size = rng.choice((8, 64, 512))
    one, two = _at(rng, data), _at(rng, data)
    data[one : one + size], data[two : two + size] = data[two : two + size], data[one : one + size]
    return data


def _other(rng: Random, data: bytearray) -> bytearray:
    whole = (b"", b"\0" * 1000, bytes(data) * 2, rng.randbytes(500), b"PK\x05\x06" + bytes(18), b"ARROW1", b"PAR1PAR1")
    return bytearray(rng.choice(whole))


_BLIND = (_flip, _flip, _flip, _set, _set, _number, _number, _cut, _drop, _double, _insert, _zero, _swap, _other)


# --- text, JSON, YAML ------------------------------------------------------------------------------------------------


def any_json(rng: Random, content: bytes) -> bytes:
    """A JSON document with other values, or one that is none."""
    choice = rng.random()
    if choice < 0.2:
        return any_bytes(rng, content)
    if choice < 0.3:
        return _odd_text(rng, content.decode())
    value = json.loads(content)
    if isinstance(value, dict) and rng.random() < 0.9:
        value.pop("checksum", None)  # which would tell at once
    for _ in range(rng.choice((1, 1, 2, 4))):
        value = _other_value(rng, value)
    return json.dumps(value).encode("utf-8", "surrogatepass")


def any_json_lines(rng: Random, content: bytes) -> bytes:
    """The same for a file of JSON lines."""
    lines = content.splitlines(keepends=True)
    if not lines or rng.random() < 0.2:
        return any_bytes(rng, content)
    at = rng.randrange(len(lines))
    lines[at] = any_json(rng, lines[at].strip()) + b"\n"
    if rng.random() < 0.2:
        rng.shuffle(lines)
    return b"".join(lines)


def _odd_text(rng: Random, text: str) -> bytes:
    deep = rng.choice((100, 1000, 100_000))
    return rng.choice(
        (
            lambda: b"[" * deep,
            lambda: b"[" * deep + b"]" * deep,
            lambda: b'{"a":' * deep + b"1" + b"}" * deep,
            lambda: text.encode("utf-16"),
            lambda: b"\xef\xbb\xbf" + text.encode(),
            lambda: text.encode("latin-1", "replace") + b"\xe9",
            lambda: b"9" * 10_000,
            lambda: b'{"format": ' + b"9" * 6000 + b"}",
            lambda: b"NaN",
            lambda: b"[]",
            lambda: b"null",
            lambda: b'"text"',
            lambda: b"",
            lambda: (text[:-2] + ', "format": 7, "format": 8}').encode(),
            lambda: b" " * 3_000_000 + text.encode(),
            lambda: b'{"k": [' + b"[]," * 1_000_000 + b"1]}",
        )
    )()


def _other_value(rng: Random, value: object) -> object:
    """The value with one place in it changed."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        choice = rng.random()
        if choice < 0.08:
            return {name: one for name, one in value.items() if name != key}
        if choice < 0.13:
            return {**value, rng.choice(NAMES): value[key]}
        if choice < 0.18:
            return {(rng.choice(NAMES) if name == key else name): one for name, one in value.items()}
        return {**value, key: _other_value(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        if rng.random() < 0.2:
            return value[:at] if rng.random() < 0.5 else value + value
        return [*value[:at], _other_value(rng, value[at]), *value[at + 1 :]]
    return any_value(rng, value)


def any_value(rng: Random, value: object = None) -> object:
    """A value of any kind, or one that is near."""
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.5:
        return rng.choice(
            (value + 1, value - 1, -value, value * 2**20, value / 2 if abs(value) < 2**60 else 0.5, str(value))
        )
    if isinstance(value, str) and rng.random() < 0.5:
        return rng.choice(
            (value + "x", value[:-1], value.upper(), "../" + value, "/" + value, value * 100, value + "\n")
        )
    deep: object = "x"
    for _ in range(100):
        deep = [deep]
    kinds = (
        lambda: rng.choice(EDGES),
        lambda: rng.choice(NAMES),
        lambda: rng.choice((None, True, False, [], {}, "", 0.5, -1.5, float("nan"), float("inf"), 1e308)),
        lambda: rng.choice(([1, 2], {"a": 1}, [[]], [None], {"": {}}, ["x"] * 50, "1", "v000001", "0" * 64)),
        lambda: deep,
        lambda: 10 ** rng.choice((100, 400)),
    )
    return rng.choice(kinds)()


YAML_BOMBS = (
    "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{','.join('*' + chr(97 + i) for _ in range(9))}]\n" for i in range(12)),
    "graph: &a {source: *a}\n",
    "train: &a [*a, *a]\n",
    "graph: !!python/object/apply:os.mkdir ['executed-by-yaml']\n",
    "graph: !!python/object/new:os.system ['touch executed-by-yaml']\n",
    "!!python/name:os.system\n",
    "train: !!binary aGVsbG8=\n",
    "train: !!set {a, b}\n",
    "graph: !!timestamp 2001-01-01\n",
    "? [a, b]\n: 1\n",
    "? {a: b}\n: 1\n",
    "train: {epochs: 1, epochs: 2}\n",
    "train: {epochs: 1}\ntrain: {epochs: 2}\n",
    "<<: *nothing\n",
    "train: {<<: [1, 2]}\n",
    "1: 2\n",
    "null: {}\n",
    "--- a\n--- b\n",
    "train: {epochs: 0x7fffffffffffffffffffffff}\n",
    "train: {epochs: 1_000_000_000_000_000_000_000}\n",
    "train: {epochs: 190:20:30}\n",
    "train: {learning_rate: .inf}\n",
    "train: {learning_rate: .nan}\n",
    "train: {epochs: 2001-99-99}\n",
    "a: &" + "b" * 100_000 + " 1\n",
    "\t- a\n",
    "%YAML 99.9\n---\na: 1\n",
    "%TAG ! tag:x,2000:\n--- !y\na: 1\n",
    "graph: {source: npz, path: $HOME/x.npz}\n",
    "graph: {source: npz, path: ${}}\n",
    "graph: {source: npz, path: '$$$'}\n",
    'graph: {source: npz, path: "a\\0b"}\n',
    "graph: {source: npz, path: /dev/zero}\n",
    "graph: {source: npz, path: /proc/self/mem}\n",
    "x" * 300_000,
    "x: " + "y " * 200_000,
    "{" * 1_000_000,
    "[" * 1_000_000,
    "- " * 100_000,
    "a:\n" + "".join(" " * i + "a:\n" for i in range(1, 1500)),
    "'" * 99_999,
    '"' + "\\x41" * 100_000 + '"',
    "a: |\n" + "  line\n" * 50_000,
    ", ".join("[" for _ in range(20_000)),
    "? " * 20_000,
    "!" * 1000,
    "&" * 1000,
    "train: {epochs: " + "9" * 6000 + "}\n",
    "rings: {hops: 1e400}\n",
)


def any_yaml(rng: Random, content: bytes) -> bytes:
    """A YAML document with other values, a known bomb, or none at all."""
    choice = rng.random()
    if choice < 0.25:
        return rng.choice(YAML_BOMBS).encode()
    if choice < 0.35:
        return content + rng.choice(YAML_BOMBS).encode()
    if choice < 0.6:
        return any_bytes(rng, content)
    lines = content.decode().splitlines()
    for _ in range(rng.choice((1, 2, 3))):
        at = rng.randrange(len(lines))
        key, colon, _ = lines[at].partition(":")
        lines[at] = rng.choice(
            (
                lambda at=at: lines[at].replace("{", "[", 1),
                lambda at=at: lines[at] + lines[at],
                lambda at=at: lines[at][: rng.randrange(len(lines[at]) + 1)],
                lambda key=key, colon=colon: f"{key}{colon} {json.dumps(any_value(rng))}",
                lambda at=at: _other_word(rng, lines[at]),
                lambda at=at: _other_word(rng, lines[at]),
                lambda at=at: _other_word(rng, lines[at]),
            )
        )()
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _other_word(rng: Random, line: str) -> str:
    words = line.split(" ")
    words[rng.randrange(len(words))] = json.dumps(any_value(rng)) + rng.choice(("", ",", "}"))
    return " ".join(words)


# --- CSV -------------------------------------------------------------------------------------------------------------


def any_csv(rng: Random, content: bytes) -> bytes:
    """A CSV file with other fields, or with what no such file has."""
    choice = rng.random()
    if choice < 0.3:
        return any_bytes(rng, content)
    if choice < 0.32:
        return rng.choice(_odd_tables())
    lines = content.split(b"\n")
    for _ in range(rng.choice((1, 1, 3))):
        at = rng.randrange(len(lines))
        fields = lines[at].split(b",")
        fields[rng.randrange(len(fields))] = rng.choice(_FIELDS)
        lines[at] = rng.choice((b",".join(fields), b",".join(fields), lines[at] + b",", lines[at] * 2, b""))
    return b"\n".join(lines)


_FIELDS = (
    b"", b"-1", b"nan", b"NaN", b"inf", b"-inf", b"1e400", b"9" * 30, b"9223372036854775807", b"9223372036854775808",
    b"-9223372036854775808", b'"', b'"a""b"', b'"a\nb"', b"'", b"\0", b"\xff\xfe", b"\xc3\x28", b"0x10", b"1_000",
    b"True",
    b"false", b" 1 ", b"1.0", b"x" * 100_000, "\u202e".encode(), b"=cmd|' /C calc'!A0", b"null", b"2001-01-01",
)  # fmt: skip


@lru_cache(maxsize=1)
def _odd_tables() -> tuple[bytes, ...]:
    many = ",".join(f"c{i}" for i in range(1_000_000)).encode()
    return (
        many + b"\n" + b"1," * 999_999 + b"1\n",
        b"source,target," + many + b"\n",
        b'source,target\n"' + b"a," * 5_000_000,
        b"source,target\n1," + b"2" * 20_000_000 + b"\n",
        b"source,target\n" + b'"\n' * 100_000,
        b"source,target\n" + b"," * 1_000_000,
        b"source,source\n1,2\n",
        b"source,target",
        b"source,target\n",
        b"\n\n\n",
        b"source;target\n1;2\n",
        b"source\ttarget\n1\t2\n",
        "source,target\n1,2\n".encode("utf-16"),
        b"source,target\r1,2\r",
        b"source,target\n1,2,3\n1\n",
        b"\0" * 100_000,
        b"source,target\n" + b"1,2\n" * 300_000,
    )


# --- npy and npz -----------------------------------------------------------------------------------------------------


def npy(array: np.ndarray) -> bytes:
    """An array as numpy saves it."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=array.dtype == object)
    return file.getvalue()


def any_npy(rng: Random, content: bytes) -> bytes:
    """An array file with another head, other numbers, or other bytes."""
    choice = rng.random()
    if choice < 0.3:
        return any_bytes(rng, content)
    if choice < 0.5:
        return _forged_head(rng)
    try:
        array = np.load(io.BytesIO(content))
    except ValueError:  # it has been changed before
        return any_bytes(rng, content)
    return npy(any_array(rng, array))


def any_array(rng: Random, array: np.ndarray) -> np.ndarray:
    """An array with other numbers, or of another type or shape."""
    array = array.copy()
    with np.errstate(all="ignore"):
        choice = rng.random()
        if choice < 0.4 and array.size and array.dtype.kind in "iufb":
            for _ in range(rng.choice((1, 1, 5))):
                array.reshape(-1)[rng.randrange(array.size)] = _fitting(rng, array.dtype)
            return array
        if choice < 0.55 and array.dtype.kind in "iufb":
            return array.astype(rng.choice(DTYPES))
        if choice < 0.7:
            shapes = ((-1,), (1, -1), (-1, 1), (1, 1, -1))
            return rng.choice((array.reshape(rng.choice(shapes)), array[:0], array[..., :0], array.T, array[:-1]))
        if choice < 0.8:
            return np.array([Executes(), 1], object)
        if choice < 0.85:
            return np.zeros((3, 4), [("a", "i4"), ("b", "f8")])
        if choice < 0.9:
            return np.array(rng.choice(EDGES[:-4]))
        if choice < 0.95:
            return np.concatenate([array.reshape(-1)] * 3)
        return rng.choice((np.array(["a", "b"]), np.array([b"x"]), np.zeros((0, 0)), np.array(0), np.array([1 + 2j])))


def _fitting(rng: Random, dtype: np.dtype) -> object:
    if dtype.kind == "f":
        return rng.choice((np.nan, np.inf, -np.inf, 1e308, 1e-320, -0.0, 3.5))
    if dtype.kind == "b":
        return rng.choice((True, False))
    limits = np.iinfo(dtype)
    return max(min(rng.choice(EDGES), limits.max), limits.min)


def _forged_head(rng: Random) -> bytes:
    shape = rng.choice(
        ((10**15,), (2, 10**12), (2**62, 2**62), (0, 10**18), (-1,), (2, -5), (2**31, 1), (3 * 10**8, 2))
    )
    descr = rng.choice(("<i8", "<f4", "|O", "<U1000000000", "|V99999999", "<M8[ns]", "xx", "|b1"))
    head = rng.choice(
        (f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}", "(" * 5000, "{}", "1" * 9000)
    )
    text = head.encode() + b"\n"
    version = rng.choice((1, 2, 3, 9))
    size = struct.pack("<H", len(text) & 0xFFFF) if version == 1 else struct.pack("<I", rng.choice((len(text), 2**31)))
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + bytes(64)


def any_npz(rng: Random, content: bytes) -> bytes:
    """An archive of arrays with other members."""
    choice = rng.random()
    if choice < 0.25:
        return any_bytes(rng, content)
    if choice < 0.255:
        return bomb_npz(rng)
    members = _members(content)
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(list(members))
        kind = rng.random()
        if kind < 0.08:
            del members[name]
        elif kind < 0.14:
            members[rng.choice(NAMES).replace("\0", "n")[:200] + rng.choice((".npy", ""))] = members[name]
        elif kind < 0.2:
            members[rng.choice(("num_nodes", "ids", "y", "x", "train_mask", "x_data", "x_shape")) + ".npy"] = npy(
                any_array(rng, np.arange(4))
            )
        else:
            members[name] = any_npy(rng, members[name])
        if not members:
            break
    return _zipped(members, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)))


def _members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _zipped(members: dict[str, bytes], method: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name or "nameless"), content, method)  # of no date: the same bytes again
    return file.getvalue()


def bomb_npz(rng: Random, gigabytes: int | None = None) -> bytes:
    """An archive of few megabytes with an array of many gigabytes, which is really in it."""
    size = (gigabytes or rng.choice((3, 5, 50))) << 30
    head = npy(np.zeros((2, 0), np.int64))[:10]
    text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': (2, {size // 16}), }}".ljust(117).encode() + b"\n"
    head = head[:8] + struct.pack("<H", len(text)) + text
    data, crc = deflated_zeros(head, size)
    name = b"edge_index.npy"
    whole = len(head) + size
    extra = struct.pack("<HHQQ", 1, 16, whole, len(data))
    local = (
        struct.pack("<4s5H3I2H", b"PK\3\4", 45, 0, 8, 0, 0, crc, 2**32 - 1, 2**32 - 1, len(name), len(extra))
        + name
        + extra
    )
    central = struct.pack(
        "<4s6H3I5H2I", b"PK\1\2", 45, 45, 0, 8, 0, 0, crc, 2**32 - 1, 2**32 - 1, len(name), len(extra), 0, 0, 0, 0, 0
    ) + name + extra  # fmt: skip
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, len(central), len(local) + len(data), 0)
    return local + data + central + end


def deflated_zeros(head: bytes, size: int) -> tuple[bytes, int]:
    """A raw deflate stream of `head` and `size` zeros, and its CRC-32 where that is cheap (else 0: read to the end)."""
    block = 1 << 24
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    one = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros = one.compress(bytes(block)) + one.flush(zlib.Z_FULL_FLUSH)
    return first + zeros * (size // block) + b"\x03\x00", 0


# --- Arrow and Parquet -----------------------------------------------------------------------------------------------


def any_arrow(rng: Random, content: bytes) -> bytes:
    """An Arrow file with other bytes, or another batch."""
    if rng.random() < 0.45:
        return any_bytes(rng, content)
    try:
        batch = pa.ipc.open_file(pa.BufferReader(content)).get_batch(0)
    except pa.ArrowInvalid:
        return any_bytes(rng, content)
    table = any_table(rng, pa.Table.from_batches([batch]))
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=rng.choice((None, None, None, None, "zstd", "lz4")))
    try:
        with pa.ipc.new_file(sink, table.schema, options=options) as file:
            for one in table.to_batches() * rng.choice((1, 1, 1, 1, 2, 0)):
                file.write_batch(one)
    except pa.ArrowInvalid:
        return any_bytes(rng, content)
    return sink.getvalue()


def any_parquet(rng: Random, content: bytes) -> bytes:
    """A Parquet file with other bytes, or another table."""
    choice = rng.random()
    if choice < 0.45:
        return any_bytes(rng, content)
    if choice < 0.46 and BOMBS:
        return rng.choice(BOMBS).read_bytes()
    try:
        table = any_table(rng, pq.read_table(io.BytesIO(content)))
        sink = io.BytesIO()
        pq.write_table(table, sink, compression=rng.choice(("none", "snappy", "zstd", "gzip", "brotli", "lz4")))
    except (pa.ArrowException, OSError):
        return any_bytes(rng, content)
    return sink.getvalue() if rng.random() < 0.8 else any_bytes(rng, sink.getvalue())


def parquet_bombs() -> Iterator[bytes]:
    """Small files of much: runs of one number, a long text that all rows share, a text as large as memory."""
    one = pa.array(np.zeros(4_000_000, np.int64))
    shared = pa.DictionaryArray.from_arrays(pa.array(np.zeros(200_000, np.int32)), pa.array(["x" * 1_000_000]))
    large = pa.array(["x" * 1_500_000_000], pa.large_string())
    for column in (one, shared, large):
        sink = io.BytesIO()
        table = pa.table({"source": column, "target": column, "id": column})
        pq.write_table(table, sink, use_dictionary=column is not large, compression="zstd")
        yield sink.getvalue()


def any_table(rng: Random, table: pa.Table) -> pa.Table:
    """A table with another column."""
    name = rng.choice(table.column_names)
    at = table.column_names.index(name)
    column = table.column(name)
    choice = rng.random()
    if choice < 0.08:
        return table.drop_columns([name])
    if choice < 0.14:
        return table.append_column(rng.choice((name, "label", "split", "\0", "x" * 1000)), column)
    if choice < 0.2:
        return table.rename_columns([("other" if one == name else one) for one in table.column_names])
    if choice < 0.25:
        return table.slice(0, rng.choice((0, 1, table.num_rows // 2)))
    if choice < 0.28:
        return pa.concat_tables([table, table])
    return table.set_column(at, name, any_column(rng, column.combine_chunks()))


def any_column(rng: Random, column: pa.Array) -> pa.Array:
    """A column of as many rows with other values or of another type."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    if pa.types.is_fixed_size_list(column.type) or pa.types.is_list(column.type):
        values = any_column(rng, column.values)
        if rng.random() < 0.4 and pa.types.is_list(column.type):
            offsets = any_array(rng, column.offsets.to_numpy()).reshape(-1)
            if offsets.dtype == np.int32 and offsets.size == len(column) + 1:
                buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets))]
                return pa.Array.from_buffers(pa.list_(values.type), len(column), buffers, children=[values])
        if pa.types.is_fixed_size_list(column.type):
            size = rng.choice((column.type.list_size, 1, 3))
            return _repeated(pa.FixedSizeListArray.from_arrays(values[: len(values) // size * size], size), len(column))
        return pa.ListArray.from_arrays(column.offsets, values)
    if (
        rng.random() < 0.6
        and not column.null_count
        and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type))
    ):
        array = any_array(rng, column.to_numpy())
        if array.ndim == 1 and array.size == len(column) and array.dtype.kind in "iufb":
            return pa.array(array.astype(array.dtype.newbyteorder("=")))
    rows = len(column)
    other = (
        lambda: pa.nulls(rows, column.type),
        lambda: pa.nulls(rows),
        lambda: pa.array([str(i) for i in range(rows)]),
        lambda: pa.array([rng.choice((*NAMES[:-1], None, "train", "nan", "-1", "1.5"))] * rows),
        lambda: pa.array([[i, None] for i in range(rows)]),
        lambda: pa.array([[1.0] * (i % 3) for i in range(rows)], pa.list_(pa.float32())),
        lambda: pa.array([{"a": 1}] * rows),
        lambda: pa.array([b"\xff\xfe"] * rows),
        lambda: pa.array([rng.choice((True, False, None)) for _ in range(rows)]),
        lambda: pa.array(range(rows), pa.uint64()),
        lambda: pa.array([2**63 + 1] * rows, pa.uint64()),
        lambda: pa.array([None, *range(rows - 1)] if rows else [], pa.int64()),
        lambda: pa.array(range(rows), pa.timestamp("ns")),
        lambda: pa.array([1.5] * rows, pa.float16()) if rows else pa.nulls(0),
        lambda: pa.array([str(i % 3) for i in range(rows)]).dictionary_encode(),
        lambda: pa.array([None] * rows, pa.string()).dictionary_encode(),
        lambda: pa.array([f"{i}" for i in range(rows)], pa.large_string()),
        lambda: pa.array([f"{i}" for i in range(rows)], pa.string_view()),
        lambda: pa.array([None] * rows, pa.decimal128(10, 2)),
        lambda: pa.array(np.zeros(rows)),
        lambda: pa.array([[[1.0]]] * rows),
    )
    return rng.choice(other)()


def _repeated(column: pa.Array, rows: int) -> pa.Array:
    return column.take(pa.array(np.arange(rows) % max(1, len(column)))) if len(column) else column


def any_packed_table(rng: Random, content: bytes) -> bytes:
    """A packed CSV file with other bytes, or other fields."""
    if rng.random() < 0.4:
        return any_bytes(rng, content)
    return gzip.compress(any_csv(rng, gzip.decompress(content)), 1, mtime=0)


def any_pickle(rng: Random, content: bytes) -> bytes:
    """A pickle with other bytes, or of what acts when it is loaded."""
    if rng.random() < 0.8:
        return any_bytes(rng, content)
    made = rng.choice((Executes(), [Executes()], {1: Executes()}, Path, print, np.zeros((3, 4)), {}, None, [[1]] * 9))
    return pickle.dumps(made, protocol=rng.choice((0, 2, 4)))


# --- torch -----------------------------------------------------------------------------------------------------------


def any_checkpoint(rng: Random, content: bytes) -> bytes:
    """A file of torch with other bytes, other tensors, or a pickle that acts."""
    choice = rng.random()
    if choice < 0.35:
        return any_bytes(rng, content)
    file = io.BytesIO()
    if choice < 0.42:
        torch.save({"model": Executes(), "optimizer": {}}, file)
        return file.getvalue()
    if choice < 0.48:
        return pickle.dumps({"model": Executes()}, protocol=rng.choice((0, 2, 4)))
    if choice < 0.53:
        torch.save(_changed_state(rng, _loaded(content)), file, _use_new_zipfile_serialization=False)
        return any_bytes(rng, file.getvalue()) if rng.random() < 0.5 else file.getvalue()
    if choice < 0.66:
        members = _members(content)
        name = rng.choice(list(members))
        members[name] = any_bytes(rng, members[name])
        return _zipped(members, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    if choice < 0.68:
        torch.save({"model": {"w": torch.zeros(1).expand(2**40)}, "optimizer": {}}, file)
        return file.getvalue()
    if choice < 0.70:
        members = _members(content)
        name = next(one for one in members if "/data/" in one)
        members[name] = bytes(200 << 20)
        return _zipped(members, zipfile.ZIP_DEFLATED)
    torch.save(_changed_state(rng, _loaded(content)), file)
    return file.getvalue()


def _loaded(content: bytes) -> object:
    return torch.load(io.BytesIO(content), weights_only=True)


def _changed_state(rng: Random, state: object) -> object:
    if isinstance(state, dict) and state:
        key = rng.choice(list(state))
        choice = rng.random()
        if choice < 0.1:
            return {name: value for name, value in state.items() if name != key}
        if choice < 0.2:
            return {**state, rng.choice(("other", 7, "model.x", "")): state[key]}
        return {**state, key: _changed_state(rng, state[key])}
    if isinstance(state, torch.Tensor):
        return _changed_tensor(rng, state)
    return any_value(rng, state if isinstance(state, (int, str)) else None)


def _changed_tensor(rng: Random, tensor: torch.Tensor) -> object:
    kinds = (
        lambda: torch.full_like(tensor, float("nan")),
        lambda: torch.full_like(tensor, float("inf")),
        lambda: tensor.double(),
        lambda: tensor.to(torch.int64),
        lambda: tensor.to(torch.complex64),
        lambda: tensor.reshape(-1),
        lambda: tensor[:0] if tensor.dim() else tensor.reshape(1),
        lambda: torch.zeros(3, 5, 7),
        lambda: torch.zeros(1).expand(tensor.shape),
        lambda: torch.zeros(0),
        lambda: tensor.to_sparse() if tensor.dim() else tensor,
        lambda: tensor.to("meta"),
        lambda: [1.0, 2.0],
        lambda: None,
        lambda: "text",
        lambda: torch.quantize_per_tensor(tensor.float().reshape(-1), 0.1, 0, torch.qint8),
    )
    return rng.choice(kinds)()
