"""Ray's own loops on a thread in the background: on the main thread they would take SIGINT."""

import threading
from collections.abc import Callable
from typing import Any


class BackgroundCall(threading.Thread):
    """A function on a thread of its own, and the error it ended with.

    Use `wait`, not `join`: before Python 3.13 a `join` that SIGINT interrupts takes the thread for ended.
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
        """Call the function and keep its error."""
        try:
            self._function()
        except BaseException as error:  # noqa: BLE001  (the main thread raises it)
            self.error = error
        finally:
            self._over.set()
