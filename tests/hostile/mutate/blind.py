"""Blind changes of bytes, and values at the edges of their kinds."""

import os
import struct
from collections.abc import Callable
from random import Random
from typing import TypeVar

T = TypeVar("T")

EDGES = (0, 1, -1, 2, 127, 255, 2**15, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, -(2**31), -(2**63), 10**30)
NAMES = ("../outside/secret", "/etc/passwd", "..", ".", "", "a/../../outside/secret", "\0", "x" * 5000, "\U0001f600")


class Executes:
    """A pickle of this makes a file when it is loaded."""

    def __reduce__(self):
        return os.mkdir, (os.environ.get("GSCL_HOSTILE_MARK", "executed-by-a-pickle"),)


def pick(rng: Random, *ways: tuple[float, Callable[[], T]]) -> T:
    """The result of one of some (weight, function)."""
    weights, functions = zip(*ways, strict=True)
    return rng.choices(functions, weights)[0]()


def any_bytes(rng: Random, content: bytes) -> bytes:
    """Some blind changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        content = rng.choices((_flip, _splice, _swap, _cut, _other), (3, 8, 1, 1, 1))[0](rng, content)
    return content


def _at(rng: Random, data: bytes) -> int:
    """A place, more often near the beginning or the end, where heads and tails are."""
    size = max(1, len(data))
    return rng.choice((rng.randrange(size), rng.randrange(min(size, 64)), size - 1 - rng.randrange(min(size, 256))))


def _flip(rng: Random, data: bytes) -> bytes:
    flipped = bytearray(data)
    for _ in range(rng.choice((1, 1, 4, 32)) if data else 0):
        flipped[_at(rng, data)] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def _splice(rng: Random, data: bytes) -> bytes:
    """Another byte or number, zeros, repeats, something in between, or a gap."""
    at, size = _at(rng, data), rng.choice((1, 4, 8, 64, 1000, 4096))
    old = data[at : at + size]
    byte = bytes([rng.choice((0, 0xFF, 0x7F, 0x80, rng.randrange(256)))])
    number = struct.pack("<Q", rng.choice(EDGES) & (2**64 - 1))[: rng.choice((2, 4, 8))]
    inserted = rng.choice((b"\0" * 8, rng.randbytes(16), b"\xff" * 4, b"\n", b'"', b"\xef\xbb\xbf", b"\x00\xd8"))
    new = pick(
        rng,
        (2, lambda: byte + old[1:]),
        (2, lambda: number[:: rng.choice((1, 1, 1, -1))] + old[len(number) :]),
        (1, lambda: b""),
        (1, lambda: old * rng.choice((2, 3, 51))),
        (1, lambda: inserted + old),
        (1, lambda: bytes(len(old))),
    )
    return data[:at] + new + data[at + size :]


def _swap(rng: Random, data: bytes) -> bytes:
    size = rng.choice((8, 64, 512))
    one, two = sorted((_at(rng, data), _at(rng, data)))
    first, second = data[one : one + size], data[two : two + size]
    return data[:one] + second + data[one + size : two] + first + data[two + size :]


def _cut(rng: Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _other(rng: Random, data: bytes) -> bytes:
    return rng.choice(
        (b"", b"\0" * 1000, data * 2, rng.randbytes(500), b"PK\x05\x06" + bytes(18), b"ARROW1", b"PAR1PAR1")
    )
