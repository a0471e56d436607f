"""The peers in the order of the tables, with their settings."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError
from gscl_scale.runtime.console import Console
from gscl_scale.studies.peers.cleora import cleora
from gscl_scale.studies.peers.factorisation import Rows
from gscl_scale.studies.peers.prone import prone
from gscl_scale.studies.peers.skip_gram import SkipGram, Walking, embed_walks
from gscl_scale.studies.peers.spectral import spectral
from gscl_scale.text import quoted

Settings = Mapping[str, float]  # whole numbers are int


class Structure(NamedTuple):
    """What a peer embeds: the adjacency, the same both ways, and a number for the id of each node."""

    adjacency: sp.csr_array
    identities: npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Peer:
    """A method that embeds the structure alone.

    embed      rows [N, at most width] from structure, settings, seed and console
    settings   those that it reads, with their defaults; all are above 0
    """

    title: str
    embed: Callable[[Structure, Settings, int, Console], Rows]
    settings: Settings


def _spectral(graph: Structure, settings: Settings, seed: int, console: Console) -> Rows:
    return spectral(graph.adjacency, int(settings["width"]), seed, int(settings["iterations"]))


def _cleora(graph: Structure, settings: Settings, seed: int, console: Console) -> Rows:
    return cleora(graph.adjacency, graph.identities, int(settings["width"]), seed, int(settings["iterations"]))


def _prone(graph: Structure, settings: Settings, seed: int, console: Console) -> Rows:
    width, order = int(settings["width"]), int(settings["order"])
    return prone(graph.adjacency, width, seed, settings["mu"], settings["theta"], order)


def _walks(graph: Structure, settings: Settings, seed: int, console: Console) -> Rows:
    p, q = settings.get("p", 1.0), settings.get("q", 1.0)
    walking = Walking(int(settings["walks"]), int(settings["length"]), p, q)
    training = SkipGram(int(settings["window"]), int(settings["negatives"]))
    return embed_walks(graph.adjacency, int(settings["width"]), seed, walking, training, console)


_WIDTH = {"width": 128}
_WALKS = {**_WIDTH, "walks": 10, "length": 80, "window": 10, "negatives": 5}

PEERS: dict[str, Peer] = {
    "spectral": Peer("spectral", _spectral, {**_WIDTH, "iterations": 20}),
    "cleora": Peer("Cleora", _cleora, {**_WIDTH, "iterations": 8}),
    "prone": Peer("ProNE", _prone, {**_WIDTH, "mu": 0.2, "theta": 0.5, "order": 10}),
    "deepwalk": Peer("DeepWalk", _walks, _WALKS),
    "node2vec": Peer("node2vec", _walks, {**_WALKS, "p": 0.25, "q": 0.25}),  # of BlogCatalog in its paper
}


def peer_settings(config: Config, name: str) -> dict[str, list[float]]:
    """The values of each setting of a peer: its defaults, then those of `compare.settings`, such as `width=[64, 128]`.

    The rows with the best combination of several values are those of the peer.
    """
    settings = {key: [value] for key, value in PEERS[name].settings.items()}
    for setting in config.compare.settings.get(name, []):
        key, _, text = (part.strip() for part in setting.partition("="))
        if key not in settings:
            raise ConfigError(
                f"compare.settings: {name}: there is no setting {quoted(key)}; {name} reads {', '.join(settings)}"
            )
        where, kind = f"compare.settings: {name}: {key}", type(PEERS[name].settings[key])
        several = text[1:-1].split(",") if text.startswith("[") and text.endswith("]") else [text]
        settings[key] = [_number(where, one.strip(), kind) for one in several]
    return settings


def combinations(settings: Mapping[str, list[float]]) -> list[Settings]:
    """Every combination of the values of settings."""
    return [dict(zip(settings, values, strict=True)) for values in itertools.product(*settings.values())]


def plain_settings(settings: Mapping[str, list[float]]) -> dict[str, object]:
    """Settings with one value as this value, the others as lists."""
    return {key: values[0] if len(values) == 1 else values for key, values in settings.items()}


def _number(where: str, text: str, kind: type[float]) -> float:
    try:
        number = kind(text)
    except ValueError:
        number = kind(0)
    if not 0 < number < 2**31:
        expected = "a whole number from 1" if kind is int else "a number above 0"
        raise ConfigError(f"{where}: expected {expected}, got {quoted(text)}")
    return number
