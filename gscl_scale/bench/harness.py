"""What all benches share: the machine, a scratch folder, figures with units, and the two files of the result."""

import platform
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from typing_extensions import TypedDict

from gscl_scale.bench.processes import in_process
from gscl_scale.errors import UserError
from gscl_scale.io.atomic import write_text
from gscl_scale.io.json import read_json_lines, write_json
from gscl_scale.machine import processor_name, usable_cores
from gscl_scale.runtime.console import Console
from gscl_scale.text import counted, table
from gscl_scale.version import __version__

Row = TypeVar("Row")
Key = TypeVar("Key")
Result = TypeVar("Result")
Columns = Mapping[str, Callable[[Row], str]]  # header of a column -> the cell of a row
Figures = dict[str, tuple[float, str]]  # name -> value and unit


class Event(TypedDict, total=False):
    """A line of log.jsonl, as far as benches read it."""

    event: str
    engine: str
    short: float
    anchors_again: int
    memory_bound_bytes: int
    file: str
    seconds: float
    rows: int
    width: int


def events(log: Path, name: str) -> list[Event]:
    """All events of a name in a log."""
    return [event for event in read_json_lines(log, Event) if event["event"] == name]


@dataclass(frozen=True)
class Line:
    """A line of the table; it is also a row of the JSON file."""

    def rows(self) -> list[dict[str, object]]:
        """The rows of the JSON file."""
        return [asdict(self)]


@dataclass(frozen=True)
class Entry(Line):
    """The figures of one competitor; a bench adds fields that say which it is, and on what it was measured."""

    figures: Figures = field(kw_only=True)

    def __getitem__(self, figure: str) -> float:
        return self.figures[figure][0]

    def rows(self) -> list[dict[str, object]]:
        """A row for each figure."""
        names = [one.name for one in fields(self) if one.name != "figures"]
        what = {name: getattr(self, name) for name in names}
        return [{**what, "figure": name, "value": value, "unit": unit} for name, (value, unit) in self.figures.items()]


def rows_of(lines: Iterable[Line]) -> list[dict[str, object]]:
    """The rows of all lines."""
    return [row for line in lines for row in line.rows()]


@dataclass(kw_only=True)
class Bench:
    """A bench as the command line asks for it; each one adds its own options and gives these defaults.

    command   the command that measures the same again
    out       folder of the files NAME.json and NAME.md, and of scratch
    turns     how often each competitor is measured
    keep      folder where drawn inputs stay for the next time; None deletes them
    cores     how many cores to use; 0 takes all
    """

    command: str
    out: Path
    turns: int = 1
    keep: Path | None = None
    cores: int = 0
    console: Console = field(default_factory=Console)

    def __post_init__(self) -> None:
        self.core_ids = taken_cores(self.cores)

    @property
    def name(self) -> str:
        """The NAME of its command and of its files."""
        return type(self).__name__.lower()

    @property
    def machine(self) -> str:
        """The cores, the processor and the turns, in words."""
        cores = f"{len(self.core_ids)} cores" if len(self.core_ids) > 1 else "one core"
        turns = f"median of {self.turns} turns" if self.turns > 1 else "each measured once"
        return f"{cores} of {processor_name()}, {turns}"

    def alone(self, function: Callable[..., Result], *arguments: Any, cores: Sequence[int] | None = None) -> Result:
        """Run a function alone in a fresh process, on all cores of the bench or on these."""
        return in_process(cores or self.core_ids, function, *arguments)

    def in_turns(
        self, ways: Mapping[Key, Callable[[], Result]], told: Callable[[Key, Result], str]
    ) -> dict[Key, list[Result]]:  # fmt: skip
        """Measure all ways once, then all once again: what slows the machine for a while slows them all."""
        measured: dict[Key, list[Result]] = {key: [] for key in ways}
        total = self.turns * len(ways)
        self.say(f"{counted(total, 'measurement', 'measurements')}, {counted(self.turns, 'turn', 'turns')}")
        for number, key in enumerate([*ways] * self.turns, start=1):
            measured[key].append(ways[key]())
            self.say(f"{number} of {total}, {told(key, measured[key][-1])}")
        return measured

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield a folder that is deleted at the end."""
        self.out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.out, prefix=".bench-") as folder:
            yield Path(folder)

    def say(self, text: str) -> None:
        """Print what is measured now."""
        self.console.say(f"bench {self.name}: {text}")

    def versions(self, packages: Iterable[str] = ()) -> dict[str, str]:
        """Versions of gscl-scale, of Python and of some packages."""
        ours = {"gscl_scale": __version__, "python": platform.python_version()}
        return ours | {package: version(package) for package in packages}

    def write(
        self, page: str, lines: Iterable[Line], setting: Mapping[str, object], packages: Iterable[str] = (),
        **more: object,
    ) -> str:  # fmt: skip
        """Write NAME.json and NAME.md, and return the page."""
        common = {
            "command": self.command, "turns": self.turns, "cores": len(self.core_ids), "processor": processor_name(),
            "versions": self.versions(packages),
        }  # fmt: skip
        write_json(self.out / f"{self.name}.json", {"setting": {**common, **setting}, "rows": rows_of(lines), **more})
        write_text(self.out / f"{self.name}.md", page + "\n")
        return page


def table_of(rows: Iterable[Row], columns: Columns[Row], left: Sequence[int] = ()) -> str:
    """A Markdown table with a line for each row; columns named in `left` hold text."""
    return table(list(columns), [[cell(row) for cell in columns.values()] for row in rows], left)


def to_draw(given: Sequence[float] | None, instead: Sequence[Path] | None, default: Sequence[float]) -> list[int]:
    """Sizes of what is drawn, from small to large; by default nothing if there are folders to measure instead."""
    sizes = given if given is not None else [] if instead else default
    return sorted(int(size) for size in sizes)


def taken_cores(number: int) -> list[int]:
    """The first `number` cores that this process may use; 0 takes all."""
    usable = usable_cores()
    if number > len(usable):
        raise UserError(f"bench: --cores {number} asks for more than the {len(usable)} cores that may be used here")
    return usable[: number or len(usable)]
