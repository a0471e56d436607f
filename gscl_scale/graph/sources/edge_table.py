"""The edge table: columns of ids, and of weights if the settings name one."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gscl_scale.config.graphs import TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.edge_weights import flaw_of_weights
from gscl_scale.graph.sources.cells import DECIMAL_COMMA, numbers_of, storage_of, sure_commas
from gscl_scale.graph.sources.dialect import Dialect
from gscl_scale.graph.sources.tablefiles import Part, TableFile, files_of, sections_of, stream
from gscl_scale.text import quoted


@dataclass(frozen=True)
class EdgeTable:
    """The files of an edge table, the columns of both ends, and that of the weights.

    order   how the weights of the table are written of which this is a part; None: as the first of these files shows
    """

    files: list[TableFile]
    ends: tuple[str, str]
    weight: str | None
    order: str | None = None

    @classmethod
    def of(cls, config: TablesGraph, files: list[TableFile]) -> "EdgeTable":
        """Files with the columns that the settings name."""
        return cls(files, (config.source_column, config.target_column), config.weight_column)

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        return [*self.ends, *([self.weight] if self.weight else [])]

    def parts(self) -> Iterator[Part]:
        """The rows in the order of the files, some at a time; each time the same."""
        if self.weight:
            _ = self._order  # once, not by each of several threads
        return (part for file in self.files for part in stream(file, self.columns))

    def parts_of_ends(self) -> Iterator[Part]:
        """The same without the weights."""
        return (part for file in self.files for part in stream(file, list(self.ends)))

    def sections(self, number: int) -> list["EdgeTable"]:
        """The table as about so many parts of similar size, in their order."""
        files = [  # for tasks, which may run in another folder
            replace(file, path=file.path.absolute(), shown=str(file), scratch=None) for file in self.files
        ]
        order = self._order if self.weight else None
        return [replace(self, files=section, order=order) for section in sections_of(files, number)]

    def weights(self, part: Part) -> list[npt.NDArray[np.float64]]:
        """The weights of some rows, if the edges have some."""
        return [weights_of(part, self.weight, self._order)] if self.weight else []

    @cached_property
    def _order(self) -> str:
        """How weights are written, by the first part of the table; a cell that is written otherwise is refused."""
        if self.order is not None:
            return self.order
        weight = self.weight or ""
        part = next((part for file in self.files for part in stream(file, [weight])), None)
        cells = part.text_or_numbers(weight) if part else None
        if cells is None or storage_of(cells.type) != "text" or not sure_commas(cells).any():
            return ""
        return DECIMAL_COMMA if numbers_of(cells, DECIMAL_COMMA).odd.sum() < numbers_of(cells).odd.sum() else ""


def edge_files(config: TablesGraph, scratch_in: Path | None = None) -> list[TableFile]:
    """The files of the edge table; copies of remote ones lie in a given folder."""
    return files_of(config.edges, "edges", Dialect.of(config.separator, config.header, config.comment), scratch_in)


def weights_of(part: Part, column: str, order: str = "") -> npt.NDArray[np.float64]:
    """A column of edge weights; GraphError with the place of a cell that is none."""
    cells = part.text_or_numbers(column)
    if storage_of(cells.type) not in ("number", "text", "none"):
        raise GraphError(f"{part.file}: {column} is of type {cells.type}, expected weights (graph.weight_column)")
    numbers = numbers_of(cells, order)
    odd = f"is not a number{' with a decimal comma' if order else ''}"
    for wrong, what in ((numbers.missing, "is missing"), (numbers.odd, odd)):
        if wrong.any():
            at = int(np.argmax(wrong))
            given = quoted(cells[at].as_py())
            raise GraphError(
                f"{part.where(at)}: {column} {what}: {given}; expected the weight of the edge: correct or drop it, "
                "or leave all weights out with --set graph.weight_column=null"
            )
    if flaw := flaw_of_weights(numbers.values):
        at, reason = flaw
        raise GraphError(
            f"{part.where(at)}: {column} is {reason}, or leave all weights out with --set graph.weight_column=null"
        )
    return numbers.values
