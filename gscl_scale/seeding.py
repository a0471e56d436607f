"""Random numbers, each keyed by its purpose and an identity such as seed, round and node."""

import hashlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale.io.arrow import numpy_of
from gscl_scale.kernels.kernel import kernel

_IDS_AT_ONCE = 1 << 18


def key(purpose: str, *identity: int) -> np.uint64:
    """A 64-bit key for one purpose and identity, such as `key("priority", seed, round)`."""
    text = repr((purpose, *(int(number) for number in identity)))
    return np.uint64(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little"))


def integer(purpose: str, *identity: int) -> int:
    """A seed below 2^63, for libraries that take a plain integer."""
    return int(key(purpose, *identity) >> np.uint64(1))


def generator(purpose: str, *identity: int) -> np.random.Generator:
    """A NumPy generator for one purpose and identity."""
    return np.random.Generator(np.random.Philox(key=int(key(purpose, *identity))))


def sample(items: npt.NDArray[np.int64], most: int, purpose: str, *identity: int) -> npt.NDArray[np.int64]:
    """All of some ascending numbers, or `most` of them drawn with the purpose and identity, ascending."""
    if items.size <= most:
        return items
    return np.sort(generator(purpose, *identity).choice(items, most, replace=False))


@kernel(inline="always")
def mix(value):
    """The finaliser of splitmix64: every bit of the result depends on every bit of `value`."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@kernel(inline="always")
def exponential(key, identity):
    """A standard exponential draw that depends only on (key, identity); not negative, never infinite."""
    bits = mix(mix(identity + np.uint64(0x9E3779B97F4A7C15)) ^ key)
    return -np.log((np.float64(bits >> np.uint64(11)) + 0.5) * 1.1102230246251565e-16)


@kernel
def _exponentials(key, identities, out):
    for i in range(identities.size):
        out[i] = exponential(key, identities[i])


def exponentials(key: np.uint64, identities: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """One standard exponential draw per identity; equal identities get equal draws."""
    out = np.empty(identities.size, np.float64)
    _exponentials(key, identities, out)
    return out


def exponentials_of(key: np.uint64, ids: pa.Array) -> npt.NDArray[np.float64]:
    """The draws of `exponentials` for ids of the user; of few at a time there are identities."""
    out = np.empty(len(ids), np.float64)
    for low in range(0, len(ids), _IDS_AT_ONCE):
        part = ids[low : low + _IDS_AT_ONCE]
        out[low : low + len(part)] = exponentials(key, identities_of(part))
    return out


@kernel
def _hash_strings(offsets, data, out):
    for i in range(out.size):
        value = np.uint64(0xCBF29CE484222325)  # FNV-1a
        for j in range(offsets[i], offsets[i + 1]):
            value = (value ^ np.uint64(data[j])) * np.uint64(0x100000001B3)
        out[i] = mix(value)


def identities_of(ids: pa.Array) -> npt.NDArray[np.uint64]:
    """A 64-bit identity for each id of the user (integer or string), independent of its row."""
    if pa.types.is_integer(ids.type):
        return numpy_of(ids.cast(pa.int64(), safe=False)).astype(np.uint64)
    strings = pc.cast(ids, pa.large_string())
    _, offsets, data = strings.buffers()
    starts = np.frombuffer(offsets, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    text = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    out = np.empty(len(strings), np.uint64)
    _hash_strings(starts, text, out)
    return out
