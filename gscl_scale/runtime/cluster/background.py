"""Ray's own loops beside the main thread, where they would take SIGINT."""

import threading
from collections.abc import Callable
from typing import Any


class Beside(threading.Thread):
    """A function in a thread of its own, and the error it ended with.

    Its end is waited for by `wait`: a `join` that SIGINT interrupts takes the thread for ended, before Python 3.13.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__(name="fit", daemon=True)
        self._function = function
        self._over = threading.Event()
        self.error: BaseException | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._over.is_set()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until it ends, but no longer than so many seconds."""
        self._over.wait(seconds)

    def run(self) -> None:
        """Until the function ends."""
        try:
            self._function()
        except BaseException as error:  # noqa: BLE001  (it is told by the main thread)
            self.error = error
        finally:
            self._over.set()
