"""Arrays and values as elements of a page that its script reads."""

import base64
import gzip
import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gscl_scale.report.html import Html

_KINDS = {
    "u1": "Uint8Array", "u2": "Uint16Array", "i2": "Int16Array", "u4": "Uint32Array", "f4": "Float32Array",
    "f8": "Float64Array",
}  # fmt: skip


def packed(name: str, columns: dict[str, npt.NDArray[Any]]) -> Html:
    """Columns of numbers as an element that `unpack` of map.js reads: little-endian, zipped, in base64."""
    columns = dict(sorted(columns.items(), key=lambda column: -column[1].itemsize))  # so that each begins aligned
    parts, where, offset = [], {}, 0
    for column, values in columns.items():
        kind = f"{values.dtype.kind}{values.itemsize}"
        parts.append(np.ascontiguousarray(values, f"<{kind}").tobytes())
        where[column] = [_KINDS[kind], offset, values.size]
        offset += values.nbytes
    text = base64.b64encode(gzip.compress(b"".join(parts), 6, mtime=0)).decode("ascii")
    return Html(f'{as_json(f"{name}-columns", where)}\n<script type="text/plain" id="{name}">{text}</script>')


def as_json(name: str, value: Any) -> Html:
    """A value as an element that JSON.parse reads; nothing in it can end the element."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Html(f'<script type="application/json" id="{name}">{text}</script>')


def texts(values: pa.Array) -> dict[str, npt.NDArray[Any]]:
    """Integers or strings as columns: the letters of all in UTF-8, and where each begins."""
    letters = [str(value).encode("utf-8", "replace") for value in values.to_pylist()]
    begin = np.cumsum([0, *map(len, letters)], dtype=np.uint32)
    return {"begin": begin, "letter": np.frombuffer(b"".join(letters), np.uint8)}
