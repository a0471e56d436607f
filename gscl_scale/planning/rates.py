"""Seconds of a core for the units of work that stages consist of."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rates:
    """Seconds of a core for a unit of work.

    sort      an entry of the graph that is read, sorted and written
    gather    a number that is read from the row of a neighbor and added
    sketch    an entry in a pass of the sketch
    visit     an entry in a search of the exact engine
    anchor    an anchor whose rings are written and checked
    flop      an operation of a dense product
    write     a byte that is written to disk
    origin    where the numbers come from
    """

    sort: float
    gather: float
    sketch: float
    visit: float
    anchor: float
    flop: float
    write: float
    origin: str


# of another machine: a dry run starts at once, and `gscl-scale plan` measures
REFERENCE = Rates(
    sort=3e-7, gather=1e-9, sketch=1.8e-7, visit=6.4e-9, anchor=1e-5, flop=1 / 9e9, write=1e-9,
    origin="2 cores of an AMD EPYC; gscl-scale plan measures those of this machine",
)  # fmt: skip
