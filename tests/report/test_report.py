import copy
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

from gscl_scale.config.config import Config
from gscl_scale.evaluate.summary import graph_warnings
from gscl_scale.report.page import write_report
from gscl_scale.report.plots import as_svg, plot_consistency
from gscl_scale.report.run_data import RunData

VOID = {"meta", "path", "use", "br", "circle", "rect", "line", "link", "img"}
HOSTILE = "<script>alert('$x^2$')</script>"


class Page(HTMLParser):
    """Every element and attribute of a page; refuses elements that do not close in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def pictures(self) -> str:
        """The words of all pictures."""
        return "\n".join(str(attributes["aria-label"]) for attributes in self.all("svg"))


def figures(val: float, test: float) -> dict[str, Any]:
    return {"val_mean": val, "val_std": 0.004, "test_mean": test, "test_std": 0.003, "weight_decay": 0.001}


def level(mean: float, pairs: int = 100) -> dict[str, Any]:
    if not pairs:
        return {"pairs": 0, "mean": None, "quantiles": [], "histogram": []}
    counts, _ = np.histogram(np.linspace(mean - 0.2, mean + 0.2, pairs), 40, (-1, 1))
    return {"pairs": pairs, "mean": mean, "quantiles": [mean] * 5, "histogram": counts.tolist()}


def metrics() -> dict[str, Any]:
    nodes = {"nodes": 100, "labelled": 100, "sampled": False, "seed": 0}
    return {
        "graph": {"name": "toy", "nodes": 1000, "fingerprint": "abc"},
        "width": {"trained": 16},
        "missing": {},
        "probe": {
            "raw": figures(0.6, 0.58),
            "untrained": figures(0.7, 0.69),
            "trained": figures(0.85, 0.8412),
            "protocol": {
                "kind": "random",
                "num_splits": 5,
                "counts": {"train": 1000, "val": 1000, "test": 8000},
                "least_val": 1000,
                "initialisations": 20,
                "epochs": 300,
                "rows_per_step": 32768,
                "scaling": "l2",
                "selection": "best validation accuracy",
                "seed": 0,
            },
        },
        "clusters": {"nmi": 0.6, "nmi_raw": 0.2, "protocol": {"algorithm": "k-means", "k": 7, "n_init": 10, **nodes}},
        "search": {"sim_at_5": 0.9, "sim_at_5_untrained": 0.7, "protocol": nodes},
        "rings": {
            "similarity": [0.7, 0.4, None],
            "distribution": {
                "trained": [level(0.7), level(0.4), level(0, 0)],
                "untrained": [level(0.5), level(0.45), level(0.3)],
            },
            "protocol": {"levels": ["hop 1", "hop 2", "beyond"], "anchors": 100},
        },
        "spread": {"trained": {"mean_cosine": 0.2, "effective_rank": 9.5}},
    }


def statistics() -> dict[str, Any]:
    return {
        "name": "toy",
        "nodes": 100,
        "entries": 400,
        "edges": 200,
        "directed": False,
        "features": 12,
        "classes": 3,
        "labelled": 100,
        "isolated": 0,
        "degree": {"min": 0, "mean": 4.0, "median": 3.0, "max": 20},
        "homophily": 0.81,
        "lc": [0.81, 0.6, 0.3],
        "lc_se": [0.01, 0.01, 0.02],
        "consistency": {"mean": [0.81, 0.6, 0.3], "se": [0.01, 0.01, 0.02], "anchors": [50, 50, 50]},
        "ring_size": [4.0, 120.5, 2_500_000.0],
        "ring_size_se": [0.1, 1.0, 10.0],
        "protocol": {"anchors": 50, "exact": False, "seed": 0, "walk": "edges both ways"},
    }


CURVE = [{"step": step, "epoch": 0, "loss": 2 + 1 / step} for step in range(1, 1000)]


def render(path: Path, **changes: Any) -> tuple[str, Page]:
    given = {"metrics": metrics(), "curve": CURVE, "statistics": statistics(), "record": {"config": Config().dump()}}
    write_report(path, RunData(**{**given, **changes}))
    text = path.read_text(encoding="utf-8")
    return text, Page(text)


def test_words_of_a_user_are_no_pattern():
    figure = Figure()
    figure.add_subplot()
    assert 'aria-label="run a\\d\\1 &lt;b&gt;"' in as_svg(figure, "x", "run a\\d\\1 <b>")


def test_the_page_is_whole_and_needs_nothing_from_outside(tmp_path: Path) -> None:
    text, page = render(tmp_path / "report.html")
    assert text.startswith("<!doctype html>")
    assert not re.search(r"https?://|//\w+\.\w+|url\((?!#)|@import", text)
    assert not {"link", "img", "iframe"} & {tag for tag, _ in page.elements}
    assert page.all("script") == [{}]
    assert all(attributes["href"].startswith("#") for attributes in page.all("use"))
    assert {"charset": "utf-8"} in page.all("meta")
    assert len(text) < 300_000
    assert list(tmp_path.iterdir()) == [tmp_path / "report.html"]


def test_references_within_the_page_are_met_and_ids_are_unique(tmp_path: Path) -> None:
    text, page = render(tmp_path / "report.html")
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', text)) <= set(ids)


def test_the_headline_and_the_table_tell_the_result(tmp_path: Path) -> None:
    _, page = render(tmp_path / "report.html")
    assert (
        "reach 84.12 % test accuracy, 15.1 points above the untrained encoder and 26.1 points above input features."
        in page.text
    )
    for part in ("84.12 ± 0.30", "58.00 ± 0.30", "0.600", "5 random splits", "20 random initialisations"):
        assert part in page.text
    assert "Take care" not in page.text


def test_headers_have_scopes_and_pictures_have_words(tmp_path: Path) -> None:
    _, page = render(tmp_path / "report.html")
    assert page.all("th")
    assert all(attributes.get("scope") in ("row", "col") for attributes in page.all("th"))
    assert len(page.all("svg")) == len(page.all("figcaption")) == 3
    assert all(attributes["role"] == "img" and attributes["aria-label"] for attributes in page.all("svg"))


def test_one_of_a_kind_is_in_the_singular(tmp_path: Path) -> None:
    _, page = render(tmp_path / "report.html", statistics={**statistics(), "nodes": 1, "edges": 1})
    assert "1 node · 1 edge · embeddings of 16 columns" in page.text


def test_names_from_outside_are_escaped(tmp_path: Path) -> None:
    config = {"graph": {"source": "digits", "name": HOSTILE, HOSTILE: [HOSTILE]}, HOSTILE: 3}
    missing = {**metrics(), "missing": {"rings": HOSTILE}}
    hostile = {**statistics(), "name": HOSTILE}
    text, page = render(
        tmp_path / "r.html", statistics=hostile, record={"config": config}, notes=[HOSTILE], metrics=missing
    )
    assert text.count("<script") == 1
    assert page.text.count(HOSTILE) >= 5
    unlabelled = {key: value for key, value in missing.items() if key != "probe"} | {"missing": {"probe": HOSTILE}}
    text, _ = render(tmp_path / "r.html", statistics=hostile, metrics=unlabelled)
    assert text.count("<script") == 1


def test_what_is_missing_is_explained_in_a_sentence(tmp_path: Path) -> None:
    bare = {key: value for key, value in metrics().items() if key not in ("probe", "clusters", "search", "rings")}
    bare["missing"] = dict.fromkeys(("probe", "clusters", "search"), "the graph has no labels")
    unlabelled = {**statistics(), "lc": None, "lc_se": None, "consistency": None, "homophily": None}
    _, page = render(tmp_path / "report.html", metrics=bare, curve=[], statistics=unlabelled)
    for sentence in (
        "Every node of toy has an embedding; no accuracy can be given, because the graph has no labels.",
        "Not measured: accuracy, NMI and Sim@5, because the graph has no labels.",
        "No training step with a finite loss is in the log.",
        "Label consistency per hop is not given, because the graph has no labels.",
        "mean cosine of random pairs 0.20, effective rank 9.5 of 16",
    ):
        assert sentence in page.text
    assert page.all("svg") == []


def test_warnings_are_in_plain_words_with_the_number_that_led_to_them(tmp_path: Path) -> None:
    poor = {**metrics(), "width": {"trained": 512}}
    poor["probe"]["trained"] = figures(0.7, 0.6)
    poor["probe"]["protocol"]["least_val"] = 5
    poor["rings"] |= {"ranking": {"accuracy": 0.71, "by_hop": [0.71]}}
    poor["rings"] |= {"ranking_untrained": {"accuracy": 0.72, "by_hop": [0.72]}}
    collapsed = {**poor, "spread": {"trained": {"mean_cosine": 0.999, "effective_rank": 1.0}}}
    split = {**statistics(), "isolated": 3, "components": {"count": 7, "joined": 4, "largest": 60}}
    rising = [{"step": step, "loss": 1 + step / 100, "gated": 0.99} for step in range(50)]
    _, page = render(tmp_path / "report.html", metrics=poor, statistics=split, curve=rising)
    for words in (
        "Take care",
        "9.0 points below the untrained encoder",
        "Training brought no gain. The embeddings reach 60.00 %",
        "Test accuracy is 9.00 ± 0.09 points below the untrained encoder; the embeddings use few of their 512",
        "Only 5 validation nodes",
        "Neighbourhoods are ranked no better than by the untrained encoder (71.0 % of pairs against 72.0 %); use a new "
        "run folder (--run) and add --set loss.temperature=0.1",
        "use few of their 512 dimensions (effective rank 9.5)",
        "The loss did not fall: 1.020 in the first steps, 1.470 in the last ones",
        "The gate stops 99 % of all terms",
        "The graph has 4 connected components of two or more nodes (the largest holds 60.0 % of the nodes)",
        "3 nodes (3.0 %) have no neighbours: nothing of the graph is in their embeddings",
    ):
        assert words in page.text
    assert "have collapsed" in render(tmp_path / "report.html", metrics=collapsed)[1].text
    alone = {**split, "components": {"count": 4, "joined": 1, "largest": 97}}
    told = list(graph_warnings(alone))
    assert len(told) == 1
    assert told[0].startswith("3 nodes (3.0 %) have no neighbours")


def test_the_course_of_the_training_is_drawn_as_far_as_it_is_logged(tmp_path: Path) -> None:
    logged = {"per_level": [2.0, 1.0], "gated": 0.25, "anchors": 100, "step_s": 0.5, "data_wait_s": 0.1}
    first = {**logged, "step": 0, "loss": 3, "step_s": 40.5, "data_wait_s": 40.0}
    curve = [first, *({"step": step, "loss": 3 - step / 100, **logged} for step in range(1, 100))]
    events = [
        {"time": "2026-01-01T00:00:00+00:00", "stage": "train", "event": "started", "device": "cpu", "processes": 1},
        {"time": "2026-01-01T00:00:30+00:00", "stage": "train", "event": "validation", "epoch": 1, "accuracy": 0.5},
        {"time": "2026-01-01T00:01:15+00:00", "stage": "train", "event": "done"},
    ]
    _, page = render(tmp_path / "report.html", curve=curve, events=events)
    assert (
        "100 steps in 90 s; after the first step, 200 anchors per second, 20 % of the time waiting for data."
        in page.text
    )
    assert "75 s" in page.text
    for words in ("loss from 3 to 2.01", "ring 1 from 2 to 2; ring 2 from 1", "gated from 0.25", "accuracy from 0.5"):
        assert words in page.pictures()
    assert "anchors from 200 to 200" in page.pictures()


RINGS = [{"loss": float("nan")}, {"loss": None}, *({"per_level": losses} for losses in (None, [2.0], [1.0, 3.0]))]
HOP_ZERO = [{"hop_zero": loss, "per_level": [2.0]} for loss in (5.0, 2.0)]


@pytest.mark.parametrize(
    ("steps", "words"),
    [(RINGS, "ring 1 from 2 to 1; ring 2 from 3 to 3"), (HOP_ZERO, "hop 0 from 5 to 2; ring 1 from 2 to 2")],
)
def test_losses_per_ring_are_drawn_as_far_as_they_are_logged(tmp_path: Path, steps: list[Any], words: str) -> None:
    _, page = render(tmp_path / "report.html", curve=[{"step": n, "loss": 1.0, **each} for n, each in enumerate(steps)])
    assert words in page.pictures()
    assert "loss from 1 to 1" in page.pictures()
    assert ("hop 0" in page.pictures()) == ("hop_zero" in steps[0])


def test_settings_that_differ_from_the_defaults_come_first(tmp_path: Path) -> None:
    config = Config.parse({"graph": {"source": "tables", "edges": "e.csv"}, "train": {"epochs": 7}})
    _, page = render(tmp_path / "report.html", record={"config": config.dump()})
    start = page.text.index("Settings that differ from the defaults")
    shown = page.text[start : page.text.index("All settings")]
    for words in ("graph.edges", "e.csv", "train.epochs", "7", "auto"):
        assert words in shown
    assert "model.width" not in shown


def test_samples_are_told(tmp_path: Path) -> None:
    part = {"bytes": 3 << 20}
    samples = {
        "rounds": [{"parts": [part, part]}, None], "rounds_asked": 4, "num_nodes": 100, "rings": {"engine": "auto"},
        "mean_ring_size": [4.0, 120.5], "mean_stored": [4.0, 16.0, 32.0], "fingerprint": "f00d",
    }  # fmt: skip
    _, page = render(tmp_path / "report.html", samples=samples)
    for words in ("1 of 4 asked for", "6 MiB", "120.5", "f00d"):
        assert words in page.text


def test_every_train_share_has_a_row(tmp_path: Path) -> None:
    several = metrics()
    several["probe_by_fraction"] = {"0.02": several["probe"], "0.1": copy.deepcopy(several["probe"])}
    _, page = render(tmp_path / "report.html", metrics=several)
    assert "2 % of labels" in page.text
    assert "10 % of labels" in page.text


def test_the_same_figures_give_the_same_bytes(tmp_path: Path) -> None:
    assert render(tmp_path / "a.html")[0] == render(tmp_path / "b.html")[0]


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_the_plot_of_consistency_is_written_as_the_name_says(tmp_path: Path, ending: str) -> None:
    magic = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[ending]
    plot_consistency(statistics(), tmp_path / f"lc.{ending}")
    assert (tmp_path / f"lc.{ending}").read_bytes().startswith(magic)
    plot_consistency({**statistics(), "consistency": None}, tmp_path / f"none.{ending}")


def test_the_curve_of_consistency_ends_where_no_anchor_has_a_ring(tmp_path: Path) -> None:
    few = {"mean": [0.81, 0.2, None], "se": [0.01, None, None], "anchors": [50, 1, 0]}
    _, page = render(tmp_path / "report.html", statistics={**statistics(), "consistency": few})
    assert "label consistency per hop: 0.81, 0.20." in page.pictures()
    assert "over the anchors that have such a ring" in page.text
    rows = re.sub(r"\s+", " ", page.text)
    assert "label consistency LC0.8100 ± 0.01000.2000-anchors with such a ring5010mean size of ring" in rows


def test_drawing_leaves_no_figure_and_no_setting_behind(tmp_path: Path) -> None:
    before = json.dumps(dict(matplotlib.rcParams), default=str)
    render(tmp_path / "report.html")
    plot_consistency(statistics(), tmp_path / "lc.png")
    assert pyplot.get_fignums() == []
    assert json.dumps(dict(matplotlib.rcParams), default=str) == before
