"""JSON, YAML and CSV files with other values, with what no such file has, or with so much that memory is short."""

import gzip
import json
from functools import lru_cache
from random import Random

from tests.hostile.mutate.blind import EDGES, NAMES, any_bytes, pick


def any_json(rng: Random, content: bytes) -> bytes:
    """A JSON document with other values, or something that is not JSON."""
    return pick(
        rng,
        (2, lambda: any_bytes(rng, content)),
        (1, lambda: _odd_text(rng, content.decode())),
        (7, lambda: _other_document(rng, json.loads(content))),
    )


def _other_document(rng: Random, value: object) -> bytes:
    if isinstance(value, dict) and rng.random() < 0.9:
        value.pop("checksum", None)  # which would give the change away
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
    deep, plain = rng.choice((100, 1000, 100_000)), text.encode()
    return rng.choice(
        (
            b"[" * deep, b"[" * deep + b"]" * deep, b'{"a":' * deep + b"1" + b"}" * deep, text.encode("utf-16"),
            b"\xef\xbb\xbf" + plain, text.encode("latin-1", "replace") + b"\xe9", b"9" * 10_000,
            b'{"format": ' + b"9" * 6000 + b"}", b"NaN", b"[]", b"null", b'"text"', b"",
            plain[:-2] + b', "format": 7, "format": 8}', b" " * 3_000_000 + plain,
            b'{"k": [' + b"[]," * 1_000_000 + b"1]}",
        )
    )  # fmt: skip


def _other_value(rng: Random, value: object) -> object:
    """The value with one place in it changed."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key, name = rng.choice(list(value)), rng.choice(NAMES)
        return pick(
            rng,
            (8, lambda: {other: one for other, one in value.items() if other != key}),
            (5, lambda: {**value, name: value[key]}),
            (5, lambda: {(name if other == key else other): one for other, one in value.items()}),
            (82, lambda: {**value, key: _other_value(rng, value[key])}),
        )
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        return pick(
            rng,
            (1, lambda: value[:at]),
            (1, lambda: value + value),
            (8, lambda: [*value[:at], _other_value(rng, value[at]), *value[at + 1 :]]),
        )
    return any_value(rng, value)


def any_value(rng: Random, value: object = None) -> object:
    """A value of any kind, or one that is near."""
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.5:
        half = value / 2 if abs(value) < 2**60 else 0.5
        return rng.choice((value + 1, value - 1, -value, value * 2**20, half, str(value)))
    if isinstance(value, str) and rng.random() < 0.5:
        others = value + "x", value[:-1], value.upper(), "../" + value, "/" + value, value * 100, value + "\n"
        return rng.choice(others)
    deep: object = "x"
    for _ in range(100):
        deep = [deep]
    kinds = (
        EDGES,
        NAMES,
        (None, True, False, [], {}, "", 0.5, -1.5, float("nan"), float("inf"), 1e308),
        ([1, 2], {"a": 1}, [[]], [None], {"": {}}, ["x"] * 50, "1", "v000001", "0" * 64),
        (deep,),
        (10**100, 10**400),
    )
    return rng.choice(rng.choice(kinds))


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
    "{" * 10_000,
    "[" * 10_000,
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
    """A YAML document with other values, a known bomb, or something that is not YAML."""
    bomb = rng.choice(YAML_BOMBS).encode()
    return pick(
        rng,
        (25, lambda: bomb),
        (10, lambda: content + bomb),
        (25, lambda: any_bytes(rng, content)),
        (40, lambda: _other_lines(rng, content.decode().splitlines())),
    )


def _other_lines(rng: Random, lines: list[str]) -> bytes:
    for _ in range(rng.choice((1, 2, 3))):
        at = rng.randrange(len(lines))
        line = lines[at]
        key, colon, _ = line.partition(":")
        lines[at] = pick(
            rng,
            (1, lambda line=line: line.replace("{", "[", 1)),
            (1, lambda line=line: line * 2),
            (1, lambda line=line: line[: rng.randrange(len(line) + 1)]),
            (1, lambda key=key, colon=colon: f"{key}{colon} {json.dumps(any_value(rng))}"),
            (3, lambda line=line: _other_word(rng, line)),
        )
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _other_word(rng: Random, line: str) -> str:
    words = line.split(" ")
    words[rng.randrange(len(words))] = json.dumps(any_value(rng)) + rng.choice(("", ",", "}"))
    return " ".join(words)


# --- CSV -------------------------------------------------------------------------------------------------------------


def any_csv(rng: Random, content: bytes) -> bytes:
    """A CSV file with other fields, or with what no such file has."""
    return pick(
        rng,
        (30, lambda: any_bytes(rng, content)),
        (2, lambda: rng.choice(_odd_tables())),
        (68, lambda: _other_fields(rng, content.split(b"\n"))),
    )


def any_packed_table(rng: Random, content: bytes) -> bytes:
    """A packed CSV file with other bytes, or other fields."""
    if rng.random() < 0.4:
        return any_bytes(rng, content)
    return gzip.compress(any_csv(rng, gzip.decompress(content)), 1, mtime=0)


def _other_fields(rng: Random, lines: list[bytes]) -> bytes:
    for _ in range(rng.choice((1, 1, 3))):
        at = rng.randrange(len(lines))
        fields = lines[at].split(b",")
        fields[rng.randrange(len(fields))] = rng.choice(_FIELDS)
        lines[at] = rng.choice((b",".join(fields), b",".join(fields), lines[at] + b",", lines[at] * 2, b""))
    return b"\n".join(lines)


_FIELDS = (
    b"", b"-1", b"nan", b"NaN", b"inf", b"-inf", b"1e400", b"9" * 30, b"9223372036854775807", b"9223372036854775808",
    b"-9223372036854775808", b'"', b'"a""b"', b'"a\nb"', b"'", b"\0", b"\xff\xfe", b"\xc3\x28", b"0x10", b"1_000",
    b"True", b"false", b" 1 ", b"1.0", b"x" * 100_000, "\u202e".encode(), b"=cmd|' /C calc'!A0", b"null", b"2001-01-01",
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
