"""The rounds of a training on disk: the next one is checked while one is used."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from gscl_scale.errors import FolderError
from gscl_scale.shards.reader import RoundReader, Samples


class CheckedRounds:
    """Rounds by epoch; a round is checked before it is used, and not before the training is at the one before it."""

    def __init__(self, samples: Samples, epochs: int) -> None:
        self._samples, self._epochs = samples, epochs
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checks")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._pool.shutdown(cancel_futures=True)

    @property
    def num_rounds(self) -> int:
        """Rounds on disk."""
        return self._samples.num_rounds

    def of_epoch(self, epoch: int) -> RoundReader:
        """The round of an epoch; a damaged one is refused."""
        reader = self._samples.of_epoch(epoch)
        if epoch + 1 < self._epochs:
            self._pool.submit(self._check, (epoch + 1) % self.num_rounds)
        return reader

    def _check(self, number: int) -> None:
        with contextlib.suppress(FolderError):  # it is raised when the round is used
            for _ in self._samples.check(number):
                if self._ended.is_set():
                    return
