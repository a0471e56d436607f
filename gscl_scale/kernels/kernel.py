"""The decorator of every kernel: numba is imported and compiles it when it is first called, not when it is declared."""

import functools
import hashlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy.typing as npt

_SIGNS = (b"import numba", b"from numba", b"from gscl_scale.kernels.kernel import")
_MAKING = threading.Lock()


def kernel(function: Any = None, **options: Any) -> Any:
    """Compile a function that runs without the GIL; `options` are further ones of numba.njit."""
    return functools.partial(Kernel, **options) if function is None else Kernel(function, **options)


class Kernel:
    """A function that numba compiles, or loads from its cache, at the first call.

    A command that only looks at a finished run imports modules with kernels and calls none of them, and numba takes
    longer to import than they do. Other kernels call this one as if it were a function of numba.
    """

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        functools.update_wrapper(self, function)
        self._options = options
        self._dispatcher: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function."""
        return self.dispatcher(*arguments)

    @property
    def dispatcher(self) -> Any:
        """The function of numba."""
        if self._dispatcher is None:
            from gscl_scale.kernels.cache import compiler

            with _MAKING:  # of two, each would compile on its own
                self._dispatcher = self._dispatcher or compiler(self.py_func, **self._options)
        return self._dispatcher

    # what numba asks of a function that a kernel calls

    @property
    def _numba_type_(self) -> Any:
        return self.dispatcher._numba_type_

    @property
    def targetoptions(self) -> Any:
        """Options of the compiler, such as `inline`."""
        return self.dispatcher.targetoptions

    @property
    def py_func(self) -> Any:
        """The function as it is written."""
        return self.__wrapped__  # type: ignore[attr-defined]  # of update_wrapper


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array as it is mapped from a file: numba compiles a kernel once more for an array that can be written."""
    view = array.view()
    view.flags.writeable = False
    return view


def instruction(definition: Callable[..., Any]) -> Any:
    """An instruction of the processor that kernels can call, defined as for numba.extending.intrinsic."""
    return Instruction(definition)


class Instruction:
    """What `instruction` makes of its definition."""

    def __init__(self, definition: Callable[..., Any]) -> None:
        self.__doc__ = definition.__doc__
        self._definition = definition

    @functools.cached_property
    def _numba_type_(self) -> Any:
        from gscl_scale.kernels.cache import type_of_instruction

        return type_of_instruction(self._definition)


def kernel_sources(package: Path) -> Iterator[tuple[str, bytes]]:
    """Path and content of the files that kernels depend on; a change of another file recompiles nothing."""
    for path in sorted(package.rglob("*.py")):
        source = path.read_bytes()
        if any(sign in source for sign in _SIGNS):
            yield path.relative_to(package).as_posix(), source


def cache_folder() -> str:
    """The name of the folder for code that is compiled from the sources as they are now."""
    digest = hashlib.sha256()
    for path, source in kernel_sources(Path(__file__).parents[1]):
        digest.update(f"{path} {len(source)}\n".encode() + source)
    return f"kernels-{digest.hexdigest()[:16]}"


FOLDER = cache_folder()  # before any kernel is imported: the sources may change while this process runs
