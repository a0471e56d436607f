"""Files on the own disks of the machines of a cluster: a machine writes its own, and the others ask it for bytes."""

import functools
import shutil
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from gscl_scale.errors import LostRowsError
from gscl_scale.runtime.cluster.connect import error_line
from gscl_scale.runtime.cluster.nodes import alive_machines

Part = tuple[str, Path, int, int]  # node, file, first byte, number of bytes

_AT_ONCE = 16 << 20  # bytes of an answer
_ASKED = 4  # answers that wait
_RETRIES = 3
_remote = functools.cache(ray.remote)  # so that the cluster is told of a function once


def this_node() -> str:
    """The node of this process."""
    return str(ray.get_runtime_context().get_node_id())


def read_parts(parts: Iterable[Part]) -> Iterator[bytes]:
    """The bytes of parts of files, piece by piece, in their order; LostRowsError where a machine or a file has gone."""
    here, waiting = this_node(), deque[tuple[str, Callable[[], bytes]]]()
    for node, file, first, size in _pieces(parts):
        if node == here:
            waiting.append((node, functools.partial(_read, file, first, size)))
        else:
            # its future, since Ray takes a task that waits for an object as idle, and starts another in its place
            waiting.append((node, _on(node, _read).remote(file, first, size).future().result))
        if len(waiting) == _ASKED:
            yield _answer(*waiting.popleft())
    while waiting:
        yield _answer(*waiting.popleft())


def checksums(parts: Iterable[Part]) -> list[int | None]:
    """The CRC-32 of parts of files, each computed by its machine; None where a machine or a file has gone."""
    asked = list(parts)
    by_node: dict[str, list[int]] = {}
    for number, (node, *_) in enumerate(asked):
        by_node.setdefault(node, []).append(number)
    found: list[int | None] = [None] * len(asked)
    alive = {machine.id for machine in alive_machines()}
    answers: dict[str, Future[list[int | None]]] = {
        node: _on(node, _checksums_here).remote([asked[number][1:] for number in numbers]).future()
        for node, numbers in by_node.items()
        if node in alive
    }
    for node, answer in answers.items():
        try:
            here = answer.result()
        except RayError:
            continue  # the machine was lost meanwhile
        for number, checksum in zip(by_node[node], here, strict=True):
            found[number] = checksum
    return found


def remove_folders(folder_of: Callable[[str], Path]) -> None:
    """Remove a folder of each machine; a machine that is lost meanwhile keeps its own."""
    removed = [_on(machine.id, _remove).remote(folder_of(machine.id)) for machine in alive_machines()]
    ray.wait(removed, num_returns=len(removed), fetch_local=False)


def _on(node: str, function: Callable[..., Any]) -> Any:
    place = NodeAffinitySchedulingStrategy(node, soft=False)
    return _remote(function).options(num_cpus=0, max_retries=_RETRIES, scheduling_strategy=place)


def _answer(node: str, answer: Callable[[], bytes]) -> bytes:
    try:
        return answer()
    except (RayError, OSError) as error:
        raise LostRowsError(
            f"machine {node[:8]} of the Ray cluster, which had rows of a layer on its disk, has lost them "
            f"({error_line(error)}); rerun the command"
        ) from error


def _pieces(parts: Iterable[Part]) -> Iterator[Part]:
    for node, file, first, size in parts:
        for low in range(first, first + size, _AT_ONCE):
            yield node, file, low, min(_AT_ONCE, first + size - low)


def _read(file: Path, first: int, size: int) -> bytes:
    with file.open("rb") as opened:
        opened.seek(first)
        content = opened.read(size)
    if len(content) < size:
        raise OSError(f"{file} ends before byte {first + size:,}")
    return content


def _checksums_here(parts: list[tuple[Path, int, int]]) -> list[int | None]:
    """The CRC-32 of parts of files of this machine."""
    return [_checksum(*part) for part in parts]


def _checksum(file: Path, first: int, size: int) -> int | None:
    checksum = 0
    try:
        for _, _, low, number in _pieces([("", file, first, size)]):
            checksum = zlib.crc32(_read(file, low, number), checksum)
    except OSError:
        return None
    return checksum


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
