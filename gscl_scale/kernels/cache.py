"""Compilation of kernels: numba caches the code on disk, one folder per state of the sources."""

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.typing.templates import make_intrinsic_template

from gscl_scale.kernels.kernel import FOLDER, cache_folder


def compiler(function: Callable[..., Any], **options: Any) -> Any:
    """The function of numba that compiles a kernel for each kind of arguments it is called with.

    Compiled code contains the kernels that it calls, also those of other files. Numba's own cache compares the file of
    the kernel alone and would run stale code of other files, so each state of all sources has its own folder.
    """
    decorate: Any = numba.njit
    compiled = decorate(nogil=True, no_cfunc_wrapper=True, **options)(function)  # nobody calls kernels from C
    compiled.get_call_template = functools.partial(_call_template, compiled)
    compiled._cache = _Cache(function)  # type: ignore[no-untyped-call]  # numba's; what cache=True does, with our folder
    return compiled


def _call_template(compiled: Any, arguments: Any, keywords: Any) -> Any:
    """What numba types a call from another kernel by: not compiled once more for a number that is a constant there."""
    return type(compiled).get_call_template(compiled, tuple(map(types.unliteral, arguments)), keywords)


def type_of_instruction(definition: Callable[..., Any]) -> Any:
    """What numba knows an instruction of the processor by."""
    template = make_intrinsic_template(definition, definition, definition.__name__)
    return types.Function(template)


@functools.cache
def _announce() -> None:
    """Say once in a process why nothing happens for a while."""
    print("Compiling kernels, once on this machine (gscl-scale doctor --warm compiles all of them)", file=sys.stderr)


def _within(place: Any) -> Any:
    """Our folder in one of numba's places for compiled code (NUMBA_CACHE_DIR, __pycache__, the user's cache)."""

    def get_cache_path(self: Any) -> str:
        return str(Path(place.get_cache_path(self), FOLDER))

    return type(place.__name__, (place,), {"get_cache_path": get_cache_path})


class _Places(CompileResultCacheImpl):
    _locator_classes: Any = tuple(_within(place) for place in CompileResultCacheImpl._locator_classes)


class _Cache(FunctionCache):
    _impl_class = _Places

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the code for these arguments; it is compiled where there is none."""
        found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]  # numba's
        if found is None:
            _announce()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save nothing once a source has changed: kernels imported from then on do not belong in this folder."""
        if cache_folder() == FOLDER:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]  # numba's
