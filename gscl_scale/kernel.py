"""The decorator of every kernel: numba compiles it and caches the code on disk, one folder per state of the sources."""

import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache

_SIGNS = (b"import numba", b"from numba", b"from gscl_scale.kernel import")


def kernel(function: Any = None, **options: Any) -> Any:
    """Compile a function that runs without the GIL; `options` are further ones of numba.njit.

    Compiled code contains the kernels that it calls, also those of other files. Numba's own cache compares the file of
    the kernel alone and would run stale code of other files, so each state of all sources has its own folder.
    """
    if function is None:
        return functools.partial(kernel, **options)
    compiled = numba.njit(nogil=True, **options)(function)
    compiled._cache = _Cache(function)  # type: ignore[no-untyped-call]  # what cache=True does, with our folder
    return compiled


def kernel_sources(package: Path) -> Iterator[tuple[str, bytes]]:
    """Path and content of the files that kernels depend on; a change of another file recompiles nothing."""
    for path in sorted(package.rglob("*.py")):
        source = path.read_bytes()
        if any(sign in source for sign in _SIGNS):
            yield path.relative_to(package).as_posix(), source


def _folder() -> str:
    digest = hashlib.sha256()
    for path, source in kernel_sources(Path(__file__).parent):
        digest.update(f"{path} {len(source)}\n".encode() + source)
    return f"kernels-{digest.hexdigest()[:16]}"


_FOLDER = _folder()


def _within(place: Any) -> Any:
    """Our folder in one of numba's places for compiled code (NUMBA_CACHE_DIR, __pycache__, the user's cache)."""

    def get_cache_path(self: Any) -> str:
        return str(Path(place.get_cache_path(self), _FOLDER))

    return type(place.__name__, (place,), {"get_cache_path": get_cache_path})


class _Places(CompileResultCacheImpl):
    _locator_classes: Any = tuple(_within(place) for place in CompileResultCacheImpl._locator_classes)


class _Cache(FunctionCache):
    _impl_class = _Places

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save nothing once a source has changed: kernels imported from then on do not belong in this folder."""
        if _folder() == _FOLDER:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
