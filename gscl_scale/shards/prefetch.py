"""Rounds made while a training runs: some wait on disk, and used ones are deleted."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Self

from gscl_scale.config.sections import RingsConfig
from gscl_scale.errors import StoppedError
from gscl_scale.graph.graph import Graph
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.runner import Runner
from gscl_scale.shards.format import rounds_in
from gscl_scale.shards.journal import Journal
from gscl_scale.shards.plan import make_plan
from gscl_scale.shards.reader import RoundReader, Samples
from gscl_scale.shards.rounds import Rounds


class _Stopped(Exception):
    """The training has ended: the round in the making is not needed."""


class RoundsAhead:
    """The rounds of a training, by epoch; asking for one deletes those before it.

    The first round stays, for the evaluation. The rounds that the manifest names are on disk at any moment; others that
    a killed training has left are deleted, unless they are needed next.
    """

    def __init__(
        self,
        graph_folder: Path,
        folder: Path,
        config: RingsConfig,
        num_rounds: int,
        epochs: int,
        start_runner: Callable[[], AbstractContextManager[Runner]],
        console: Console,
        memory: int = 0,
    ) -> None:
        self.num_rounds, self._epochs = num_rounds, epochs
        self._graph_folder, self._folder = graph_folder.absolute(), folder.absolute()
        self._config, self._start_runner, self._console, self._memory = config, start_runner, console, memory
        self._epoch: int | None = None  # that the training is at
        self._ready: set[int] = set()
        self._leftover: set[int] = set()  # on disk, and not in a manifest of this process yet
        self._error: BaseException | None = None
        self._stopped = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="rounds-ahead", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._thread.join()

    def of_epoch(self, epoch: int) -> RoundReader:
        """The round of an epoch, as soon as it is made."""
        number = epoch % self.num_rounds
        with self._changed:
            self._epoch = epoch
            self._changed.notify_all()
            self._changed.wait_for(lambda: number in self._ready or self._error is not None or self._stopped)
            if self._error is not None:
                raise self._error
            if number not in self._ready:
                raise StoppedError("the training has ended")
        return Samples.open(self._folder).round(number)

    def _work(self) -> None:
        try:
            with self._start_runner() as runner:
                self._make_rounds(runner)
        except _Stopped:
            pass
        except BaseException as error:  # noqa: BLE001  (it is raised where a round is asked for)
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _make_rounds(self, runner: Runner) -> None:
        graph = Graph.open(self._graph_folder)
        plan, _ = make_plan(graph, self._folder, self._config, memory=self._memory)
        journal = Journal(self._folder, plan)
        rounds = Rounds(graph, self._graph_folder, self._folder, plan, journal, runner, self._console, None)
        rounds.begin()
        rounds.make_round(0, self._check_stopped)  # every manifest names it; nothing is done where it is finished
        self._leftover = rounds_in(self._folder) - {0}
        while self._wait():
            self._drop_used(rounds)
            if (number := self._wanted()) is not None:
                rounds.make_round(number, self._check_stopped)
                self._console.event("precompute", "round", round=number)
                self._publish(rounds, self._ready | {0, number})
        if self._epoch is not None and self._epoch + 1 >= self._epochs and self._wanted() is None:
            journal.close()
            rounds.clear_scratch()

    def _wait(self) -> bool:
        """Wait for work; False at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._wanted() is not None or self._used())
            return not self._stopped

    def _wanted(self) -> int | None:
        """The next round to make."""
        return next((number for number in self._needed() if number not in self._ready), None)

    def _needed(self) -> list[int]:
        """The rounds of this epoch and the next ones; none before the training has asked for one."""
        if self._epoch is None:
            return []
        epochs = range(self._epoch, max(self._epoch + 1, min(self._epoch + self._config.ahead + 1, self._epochs)))
        return [epoch % self.num_rounds for epoch in epochs]

    def _used(self) -> set[int]:
        return (self._ready | self._leftover) - {0, *self._needed()} if self._epoch is not None else set()

    def _drop_used(self, rounds: Rounds) -> None:
        if used := self._used():
            self._publish(rounds, {0, *(self._ready - used)})  # first: what the manifest names has to be on disk
            for number in used:
                rounds.drop_round(number)
            self._leftover -= used

    def _publish(self, rounds: Rounds, on_disk: set[int]) -> None:
        with self._changed:
            rounds.write_manifest(self.num_rounds, on_disk)
            self._ready = on_disk
            self._changed.notify_all()

    def _check_stopped(self, steps: int = 1, note: str = "") -> None:
        if self._stopped:
            raise _Stopped
