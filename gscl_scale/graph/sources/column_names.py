"""Names that people give to columns of edge and node tables."""

import re
import unicodedata
from collections.abc import Sequence

_OPPOSITES = (
    ("source", "target"), ("src", "dst"), ("src", "dest"), ("source", "destination"), ("from", "to"), ("head", "tail"),
    ("start", "end"), ("origin", "destination"), ("row", "column"), ("row", "col"), ("citing", "cited"),
    ("caller", "callee"), ("sender", "receiver"),
    ("buyer", "seller"), ("payer", "payee"), ("follower", "followee"), ("follower", "followed"),
    ("subject", "object"), ("left", "right"), ("ego", "alter"),
    ("parent", "child"), ("u", "v"), ("i", "j"), ("a", "b"), ("1", "2"), ("src", "tgt"), ("lender", "borrower"),
    ("trustor", "trustee"),
    ("von", "nach"), ("von", "an"), ("von", "zu"), ("quelle", "ziel"), ("start", "ziel"),
    ("sender", "empfanger"), ("sender", "empfaenger"), ("absender", "empfanger"), ("absender", "empfaenger"),
    ("de", "a"), ("de", "vers"), ("source", "cible"), ("origine", "destination"), ("depart", "arrivee"),
    ("de", "para"), ("desde", "hasta"), ("origen", "destino"), ("origem", "destino"),
    ("da", "a"), ("origine", "destinazione"), ("van", "naar"), ("bron", "doel"),
)  # fmt: skip
_THINGS = (
    "", "id", "ids", "node", "nodeid", "vertex", "vertexid", "name", "key", "user", "userid", "person", "author",
    "gene", "protein", "account", "page", "paper", "paperid", "item", "entity", "station", "city", "airport", "member",
    "actor", "product", "productid", "customer", "word", "address",
    "nr", "ort", "konto", "knoten",
)  # fmt: skip
_WEIGHTS = ("weight", "weights", "edgeweight", "w", "gewicht", "kantengewicht", "poids", "peso")
_IDS = ("id", "node", "nodeid", "vertex", "vertexid", "key", "name", "nodename", "uid", "identifier", "index")
_LABELS = ("label", "labels", "class", "classlabel", "y", "target", "category", "community")
_SURE = {
    *("source", "target", "src", "dst", "dest", "sourceid", "targetid", "fromid", "toid", "fromnodeid", "tonodeid"),
    *("startid", "endid", "nodeid", "userid", "id", "weight", "weights", "edgeweight", "label", "class", "split"),
}
_COUNTERS = ("", "id", "index", "edge", "edgeid", "no", "nr", "number", "rownames", "unnamed0", "rowid")


def plain(name: str) -> str:
    """A name in lower case, without accents and anything but letters and digits.

    >>> plain("Source_ID"), plain(":START_ID"), plain("Arrivée")
    ('sourceid', 'startid', 'arrivee')
    """
    return re.sub(r"[^a-z0-9]", "", unicodedata.normalize("NFKD", name.lower()))


def find_ends(names: Sequence[str]) -> tuple[str, str] | None:
    """The columns of both ends of an edge, if their names tell.

    >>> find_ends(["weight", "To", "From"]), find_ends(["gene_a", "gene_b"]), find_ends(["name", "team"])
    (('From', 'To'), ('gene_a', 'gene_b'), None)
    """
    known = {plain(name): name for name in names}
    for thing in _THINGS:
        for first, second in _OPPOSITES:
            for pair in ((first + thing, second + thing), (thing + first, thing + second)):
                if all(name in known and not name.isdigit() for name in pair):
                    return known[pair[0]], known[pair[1]]
    return None


def is_known(name: str) -> bool:
    """Whether a text is the name of a column and hardly an id."""
    return plain(name) in _SURE


def find_weight(names: Sequence[str]) -> str | None:
    """The column of edge weights, if its name tells."""
    return next((name for wanted in _WEIGHTS for name in names if plain(name) == wanted), None)


def find_id(names: Sequence[str]) -> str | None:
    """The column of ids of a node table, if its name tells."""
    return next((name for wanted in _IDS for name in names if plain(name) == wanted), None)


def labels_among(names: Sequence[str]) -> list[str]:
    """Columns that may hold the labels of nodes, the likeliest first."""
    return [name for wanted in _LABELS for name in names if plain(name) == wanted]


def counts_rows(name: str) -> bool:
    """Whether a column with this name may only number the edges."""
    return plain(name) in _COUNTERS
