"""The embeddings of a run in Python: vectors by id, neighbours, figures, the report, copies."""

import contextlib
import functools
import os
import shutil
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from gscl_scale.config.config import Config
from gscl_scale.config.keywords import errors_in_python
from gscl_scale.embed.select import parse_ids, rows_of_ids
from gscl_scale.embed.store import COPIES, Embeddings, export, fingerprint_in, read_embeddings
from gscl_scale.errors import FolderError, UnknownIdError, UserError
from gscl_scale.evaluate.link_summary import links_table
from gscl_scale.evaluate.ranking_summary import ranking_sentence
from gscl_scale.evaluate.schema import Metrics, read_metrics
from gscl_scale.evaluate.summary import (
    figures_table,
    missing_sentences,
    protocol_sentences,
    warnings_of,
)
from gscl_scale.graph.graph import Graph
from gscl_scale.io.arrow import is_text, text_of
from gscl_scale.io.atomic import is_temporary, publish_folder
from gscl_scale.neighbors.answers import Neighbor, nearest_of
from gscl_scale.neighbors.places import EmbeddingSource
from gscl_scale.registry.locate import find_run
from gscl_scale.report.html import bullets, collapsible, element, html, table
from gscl_scale.run.folder import Run
from gscl_scale.run.lock import lock_run
from gscl_scale.run.record import config_in
from gscl_scale.runtime.console import Console
from gscl_scale.stages.finished import known_figures
from gscl_scale.storage.mirror import working_copy

if TYPE_CHECKING:
    import pandas as pd

Rows = npt.NDArray[np.float32]
_RERUN = "gscl-scale evaluate and gscl-scale report"
_WANTED = ("embeddings/", "graph/", "metrics.json", "report.html", "statistics.json", "log.jsonl")


@dataclass(frozen=True)
class RunPlace:
    """The place of a run as the user gave it.

    whole       the run that the figures and the page are of: that of the embeddings, or all its repeats
    where       its folder or URL; "" for one that is not kept
    writable    whether figures and pages may be written there
    temporary   the folder to remove with the embeddings
    """

    whole: Run
    where: str = ""
    writable: bool = True
    temporary: Path | None = None


class NodeEmbeddings:
    """The embeddings of the nodes of a graph, as `fit` and `open_run` return them.

    `np.asarray(embeddings)` is the array of vectors, so whatever takes an array takes the object. An id between
    brackets gives its vector, a list of ids theirs; a slice or a mask takes rows. `in` looks for an id. A loop takes
    the vectors (`zip(embeddings.ids, embeddings)`). Temporary files of `fit` go with the object; `save` keeps them.

    Examples
    --------
    >>> import networkx as nx
    >>> import gscl_scale
    >>> embeddings = gscl_scale.fit(nx.les_miserables_graph(), epochs=2, width=8)
    >>> len(embeddings), embeddings["Valjean"].shape
    (77, (136,))
    >>> [sorted(neighbor) for neighbor in embeddings.neighbors("Valjean", count=1)]
    [['cosine', 'id', 'rank']]
    """

    def __init__(self, config: Config, run: Run, place: "RunPlace", quiet: bool = True) -> None:
        self._config, self._run, self._place, self._quiet = config, run, place, quiet
        fingerprint_in(run.embeddings)  # refuses a run that has none
        if place.temporary:
            weakref.finalize(self, shutil.rmtree, place.temporary, ignore_errors=True)

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self._place.whole.folder

    @functools.cached_property
    def vectors(self) -> Rows:
        """The embeddings [N, d], a row per node in the order of the graph."""
        return read_embeddings(self._run.embeddings)[1]

    @functools.cached_property
    def ids(self) -> npt.NDArray[Any]:
        """The ids [N] of the nodes: integers, or text as objects."""
        return self._file.ids.to_numpy(zero_copy_only=False)

    @functools.cached_property
    def graph(self) -> Graph:
        """The graph of the run; `graph.manifest["notes"]` tells what was done to it."""
        return Graph.open(self._run.graph)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of nodes and the width of the embeddings."""
        return self._file.rows, self._file.width

    @property
    def dtype(self) -> "np.dtype[np.float32]":
        """The type of the numbers."""
        return np.dtype(np.float32)

    @property
    def metrics(self) -> Metrics:
        """The figures of the run, as in metrics.json; they are measured at the first use.

        Labels give accuracy, clusters and search, held-out edges (`evaluate.held_out_edges`) give link prediction, and
        any graph gives the ranking of rings. `metrics["missing"]` has the reason for each that is not measured.

        Returns
        -------
        dict
            `probe`, `clusters`, `search`, `links`, `rings`, each with the protocol beside it: docs/evaluation.md.
        """
        if (known := self._known_metrics()) is not None:
            return known
        if not self._can_measure():
            raise self._refusal("metrics.json")
        from gscl_scale.stages.evaluate import evaluate

        with self._at_work():
            return evaluate(self._config, self._run, Console(self._run.log, self._quiet))

    @overload
    def neighbors(self, node: int | str, count: int = 10) -> list[Neighbor]: ...
    @overload
    def neighbors(self, node: list[Any] | npt.NDArray[Any], count: int = 10) -> list[list[Neighbor]]: ...
    def neighbors(self, node: Any, count: int = 10) -> list[Neighbor] | list[list[Neighbor]]:
        """Find the nodes with the most similar embeddings, by cosine.

        Parameters
        ----------
        node
            The id of the node, or a list or an array of ids.
        count
            How many neighbours.

        Returns
        -------
        list of dict
            `rank`, `id`, `cosine`, and `class` where the graph has labels. Of several ids, a list of these lists.
        """
        if not isinstance(count, (int, np.integer)) or isinstance(count, bool) or count < 1:
            raise UserError(f"neighbors: count expected a whole number from 1, got {count!r}")
        place = EmbeddingSource(self._name, self._run.embeddings, self._run.embeddings / "index", self._run.graph)
        many = np.ndim(node) > 0
        found = nearest_of(place, self._file, self._rows_of([*node] if many else [node]), count)
        return found if many else found[0]

    def report(self, path: Path | str | None = None) -> Path:
        """Write the HTML report of the run, and measure its figures before if they are not yet.

        Parameters
        ----------
        path
            File for the page, which ends in .html. Without it, the page is in the run folder, and goes with it.

        Returns
        -------
        Path
            The page.
        """
        if path is not None and Path(path).suffix.lower() not in (".html", ".htm"):
            raise UserError(f"report: the page is HTML, expected a file that ends in .html, got {path}")
        page = self._place.whole.report
        if self._can_measure():
            from gscl_scale.stages.report import report

            _ = self.metrics
            with self._at_work():
                report(self._config_of_whole(), self._place.whole, Console(self._run.log, self._quiet))
        elif not page.exists():
            raise self._refusal("report.html")
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        return page if path is None else Path(shutil.copyfile(page, path))

    def save(self, path: Path | str) -> Path:
        """Keep the embeddings, or the whole run.

        Parameters
        ----------
        path
            A file that ends in .parquet (columns id and embedding), .npy (the vectors) or .csv (columns id, x0, x1, and
            so on); or a folder for the run as a whole, which `open_run`, `NodeEmbedder.load` and the command line read.

        Returns
        -------
        Path
            What was written.
        """
        path = Path(path)
        if path.suffix in COPIES:
            export(self._file, path, np.arange(len(self)))
            return path
        if path.suffix:
            raise UserError(f"save: expected a name that ends in .npy, .parquet or .csv, or a folder, got {path}")
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise FolderError(f"save: {path} is not empty; choose another folder")
        with publish_folder(path) as copy:
            shutil.copytree(self._place.whole.folder, copy, dirs_exist_ok=True, ignore=_hidden)
        return path

    def to_pandas(self) -> "pd.DataFrame":
        """The vectors as a data frame of pandas, whose index `id` has the ids."""
        try:
            import pandas as pd
        except ImportError:
            raise UserError(
                "to_pandas: pandas is not installed; pip install pandas, or use .vectors and .ids"
            ) from None
        return pd.DataFrame(self.vectors, index=pd.Index(self.ids, name="id"))

    def __len__(self) -> int:
        return self._file.rows

    def __iter__(self) -> Iterator[Rows]:
        return iter(self.vectors)

    def __contains__(self, node: object) -> bool:
        return bool((self.ids == node).any())

    def __getitem__(self, nodes: Any) -> Rows:
        if isinstance(nodes, slice) or getattr(nodes, "dtype", None) == np.dtype(bool):
            return self.vectors[nodes]
        many = np.ndim(nodes) > 0
        rows = self._file.take(self._rows_of(list(nodes) if many else [nodes]))
        return rows if many else rows[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        own = copy is None or copy  # the caller may change the array
        return np.array(self.vectors, dtype, copy=own)

    def __repr__(self) -> str:
        return f"NodeEmbeddings of {self.shape[0]:,} nodes, {self.shape[1]:,} numbers each ({self._name})"

    def _repr_html_(self) -> str:
        """The figures of the run if they are measured, else how to measure them: a notebook shows this."""
        known = self._known_metrics()
        if known is None:
            unmeasured = "Its figures are not measured yet: .metrics measures them, .report() writes a page with a map."
            words = unmeasured if self._can_measure() else str(self._refusal("metrics.json"))
            return element("p", repr(self), ". ", words)
        headers, rows, _ = figures_table(known)
        tables = [table("", names, lines) for names, lines in ((headers, rows), links_table(known)) if lines]
        lead = element("p", repr(self), ". ", ranking_sentence(known))
        how = bullets([*protocol_sentences(known), *missing_sentences(known)])
        return html(lead, *tables, bullets(warnings_of(known)), collapsible("How this was measured", how))

    @functools.cached_property
    def _file(self) -> Embeddings:
        return Embeddings(self._run.embeddings)

    @property
    def _name(self) -> str:
        return f"run {self._place.where}" if self._place.where else "a run that is not kept"

    def _config_of_whole(self) -> Config:
        return self._config if self._place.whole == self._run else config_in(self.folder)

    def _rows_of(self, nodes: list[Any]) -> npt.NDArray[np.int64]:
        kind = self._file.ids.type
        expected, words = (str, "text") if is_text(kind) else ((int, np.integer), "integers")
        for node in nodes:
            if not isinstance(node, expected) or isinstance(node, bool):
                raise UnknownIdError(f"{self._name}: the ids are {words}, got {node!r}; rows by number are in .vectors")
        return rows_of_ids(parse_ids(text_of(map(str, nodes)), kind, "id"), self._file.ids, self._name)

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """Be the only process that works in the run folder, which is pushed afterwards if it is that of a URL."""
        with working_copy(self._place.where or self.folder) as folder, lock_run(folder):
            yield

    def _known_metrics(self) -> Metrics | None:
        """The figures that were measured on these embeddings, of repeats their means; None if there are none."""
        if self._place.whole != self._run and self._place.whole.metrics.exists():
            return read_metrics(self._place.whole.metrics)
        if self._can_measure():
            return known_figures(self._config, self._run)
        return read_metrics(self._run.metrics) if self._run.metrics.exists() else None

    def _can_measure(self) -> bool:
        """Whether the folder may be written, and has what figures are measured on."""
        return self._place.writable and os.access(self.folder, os.W_OK) and not self._lacking()

    def _lacking(self) -> list[str]:
        needed = [self._run.graph, *([self._run.samples] if self._config.train.reads_samples else [])]
        return [folder.name for folder in needed if not (folder / "manifest.json").exists()]

    def _refusal(self, name: str) -> FolderError:
        lacking = " and ".join(f"{name}/" for name in self._lacking())
        why = f"it lacks {lacking}, from which it is made" if lacking else "nothing may be written there"
        return FolderError(f"{self._name} has no {name}, and {why}; rerun it where it was made, with {_RERUN}")


@errors_in_python()
def open_run(path: Path | str, quiet: bool = True) -> NodeEmbeddings:
    """Open a finished run: what `fit` returns, from a run folder.

    Checkpoints are not needed, so a copy of `run.json`, `graph/`, `embeddings/` and `metrics.json` will do.

    Parameters
    ----------
    path
        A run folder, the folder of a registry (its current version is opened), or the URL of one of them.
    quiet
        Whether figures that are measured later show no progress.

    Returns
    -------
    NodeEmbeddings
        Of a run with repeats, the embeddings of the first one and the figures of all.

    Examples
    --------
    >>> import networkx as nx
    >>> import gscl_scale
    >>> _ = gscl_scale.fit(nx.les_miserables_graph(), epochs=2, width=8, run="runs/novel")
    >>> gscl_scale.open_run("runs/novel")
    NodeEmbeddings of 77 nodes, 136 numbers each (run runs/novel)
    """
    found, where = find_run(str(path), "open", lambda name: name.startswith(_WANTED)), str(path).rstrip("/")
    repeated = found.own and found.name != where
    whole = Run.at(found.run.folder.parent) if repeated else found.run
    return NodeEmbeddings(config_in(found.run.folder), found.run, RunPlace(whole, where, found.own), quiet)


def _hidden(folder: str, names: list[str]) -> list[str]:
    """Locks and half-written files, which are no part of a run."""
    return [name for name in names if name.startswith(".") or is_temporary(Path(folder, name))]
