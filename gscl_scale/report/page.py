"""One self-contained page: what was reached, under which protocol, and what the graph is like."""

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from gscl_scale.evaluate.consistency import graph_rows, hop_rows, ring_protocol
from gscl_scale.evaluate.figures import METHODS, margin, missing_sentences, percent, protocol_sentences, warnings_of
from gscl_scale.files import publish
from gscl_scale.report.plots import consistency_svg, loss_svg, violins_svg
from gscl_scale.report.style import STYLE


def write_report(
    path: Path,
    *,
    metrics: dict[str, Any],
    curve: list[dict[str, Any]],
    statistics: dict[str, Any],
    config: dict[str, Any] | None = None,
    notes: Iterable[str] = (),
    title: str | None = None,
) -> None:
    """Publish the page; `curve` holds the training steps of log.jsonl, `notes` sentences about the graph."""
    page = render(metrics, curve, statistics, config or {}, list(notes), title or str(statistics["name"]))
    with publish(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def render(
    metrics: dict[str, Any],
    curve: list[dict[str, Any]],
    statistics: dict[str, Any],
    config: dict[str, Any],
    notes: list[str],
    title: str,
) -> str:
    """The page as text."""
    body = [
        f'<header><p class="over">gscl-scale report</p><h1>{escape(title)}</h1>',
        f'<p class="lead">{_headline(metrics, title)}</p>{_warnings(metrics)}</header>',
        _accuracy(metrics),
        _by_fraction(metrics),
        _pictures(metrics, curve),
        _graph(statistics, notes),
        _settings(config),
        _footer(metrics),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)} - gscl-scale report</title>\n<style>{STYLE}</style>\n</head>\n"
        "<body>\n<main>\n" + "\n".join(part for part in body if part) + "\n</main>\n</body>\n</html>\n"
    )


# --- what was reached ------------------------------------------------------------------------------------------------


def _headline(metrics: dict[str, Any], title: str) -> str:
    probe = metrics.get("probe")
    if not probe or probe["trained"]["test_mean"] is None:
        reason = metrics.get("missing", {}).get("probe", "there are no test nodes")
        return f"Every node of {escape(title)} has an embedding; no accuracy can be given, because {escape(reason)}."
    reached = probe["trained"]["test_mean"]
    gains = [
        f"{abs(100 * (reached - probe[name]['test_mean'])):.1f} points "
        f"{'above' if reached >= probe[name]['test_mean'] else 'below'} {words}"
        for name, words in (("untrained", "the untrained encoder"), ("raw", "raw features"))
        if name in probe and probe[name]["test_mean"] is not None
    ]
    beside = f", {' and '.join(gains)}" if gains else ""
    return f"The embeddings reach <strong>{100 * reached:.2f} %</strong> test accuracy{beside}."


def _warnings(metrics: dict[str, Any]) -> str:
    warnings = warnings_of(metrics)
    if not warnings:
        return ""
    return f'<aside class="note"><h2>Take care</h2>{_items(warnings)}</aside>'


def _accuracy(metrics: dict[str, Any]) -> str:
    sentences = [*protocol_sentences(metrics), *missing_sentences(metrics)]
    words = _listing(sentences)
    if "probe" not in metrics:
        return f"<section><h2>How good are the embeddings?</h2>{words}</section>"
    head = _head("vectors", "validation %", "test %", "NMI", "Sim@5")
    rows = "".join(_method_row(metrics, name) for name in METHODS if name in metrics["probe"])
    table = _table("Accuracy of a linear probe, agreement of clusters with classes, and search", head, rows)
    return f"<section><h2>How good are the embeddings?</h2>{table}{words}</section>"


def _method_row(metrics: dict[str, Any], name: str) -> str:
    probe, suffix = metrics["probe"][name], "" if name == "trained" else f"_{name}"
    others = [metrics.get("clusters", {}).get(f"nmi{suffix}"), metrics.get("search", {}).get(f"sim_at_5{suffix}")]
    cells = [
        f"<td>{_with_std(probe['val_mean'], margin(probe, 'val', metrics))}</td>",
        f'<td class="key">{_with_std(probe["test_mean"], margin(probe, "test", metrics))}</td>',
        *(f"<td>{'-' if value is None else f'{value:.3f}'}</td>" for value in others),
    ]
    own = ' class="own"' if name == "trained" else ""
    return f'<tr{own}><th scope="row">{METHODS[name]}</th>{"".join(cells)}</tr>'


def _by_fraction(metrics: dict[str, Any]) -> str:
    """Test accuracy for every train fraction, where there are several."""
    sections = metrics.get("probe_by_fraction", {})
    if not sections:
        return ""
    names = [name for name in METHODS if name in next(iter(sections.values()))]
    rows = "".join(
        f'<tr><th scope="row">{100 * float(fraction):g} % of labels</th>'
        + "".join(
            f"<td>{_with_std(part[name]['test_mean'], margin(part[name], 'test', metrics))}</td>" for name in names
        )
        + "</tr>"
        for fraction, part in sections.items()
    )
    table = _table("Test accuracy in %", _head("train share", *(METHODS[name] for name in names)), rows)
    return f"<section><h2>With fewer or more labels</h2>{table}</section>"


# --- pictures --------------------------------------------------------------------------------------------------------


def _pictures(metrics: dict[str, Any], curve: list[dict[str, Any]]) -> str:
    rings = metrics.get("rings")
    similarity = violins_svg(rings["distribution"], rings["protocol"]["levels"]) if rings else ""
    figures = [
        (loss_svg(curve), "Loss", "per training step.", "No training step with a finite loss is in the log."),
        (similarity, "Rings", _ring_words(metrics), "No ring samples were compared."),
    ]
    drawn = "".join(_figure(svg, name, words) for svg, name, words, _ in figures if svg)
    absent = "".join(f'<p class="small">{escape(reason)}</p>' for svg, _, _, reason in figures if not svg)
    return f'<section><h2>Training and rings</h2><div class="figures">{drawn}</div>{absent}</section>'


def _figure(svg: str, name: str, words: str) -> str:
    return f"<figure>{svg}<figcaption><b>{escape(name)}</b> {escape(words)}</figcaption></figure>"


def _ring_words(metrics: dict[str, Any]) -> str:
    rings = metrics.get("rings")
    if not rings:
        return ""
    means = ["-" if mean is None else f"{mean:.2f}" for mean in rings["similarity"]]
    return (
        "cosine between an anchor and the members of its rings; training should order them by hop. "
        f"Means of the trained encoder: {', '.join(means)}. {rings['protocol']['anchors']:,} anchors."
    )


# --- graph and settings ----------------------------------------------------------------------------------------------


def _graph(statistics: dict[str, Any], notes: list[str]) -> str:
    rows = "".join(_fact(name, value) for name, value in graph_rows(statistics))
    svg = consistency_svg(statistics)
    words = "mean share of ring n with the label of its anchor; below each hop the mean size of its ring."
    picture = _figure(svg, "Label consistency", words) if svg else ""
    sentences = [f"Rings measured from {ring_protocol(statistics)}; ± is one standard error where sampled", *notes]
    if not svg:
        sentences.append("Label consistency per hop is not given, because the graph has no labels")
    return (
        f'<section><h2>The graph</h2><div class="figures">{_table("", "", rows, "facts")}{picture}</div>'
        f"{_per_hop(statistics)}{_listing(sentences)}</section>"
    )


def _per_hop(statistics: dict[str, Any]) -> str:
    head = _head("", *(f"hop {hop}" for hop in range(1, len(statistics["ring_size"]) + 1)))
    rows = "".join(
        f'<tr><th scope="row">{name.removesuffix(", hop")}</th>{"".join(f"<td>{value}</td>" for value in values)}</tr>'
        for name, values in hop_rows(statistics)
    )
    return _table("Rings per hop", head, rows)


def _settings(config: dict[str, Any]) -> str:
    if not config:
        return ""
    parts = []
    for section, values in config.items():
        pairs = values.items() if isinstance(values, dict) else [("", values)]
        rows = "".join(_fact(str(key), _plain(value)) for key, value in pairs)
        table = _table("", "", rows, "facts")
        parts.append(f"<details><summary>{escape(str(section))}</summary>{table}</details>")
    return f"<section><h2>Settings</h2>{''.join(parts)}</section>"


def _footer(metrics: dict[str, Any]) -> str:
    fingerprint = metrics.get("graph", {}).get("fingerprint", "")
    return f"<footer>Graph fingerprint {escape(str(fingerprint))}</footer>" if fingerprint else ""


# --- pieces ----------------------------------------------------------------------------------------------------------


def _table(caption: str, head: str, rows: str, kind: str = "") -> str:
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    region = f' tabindex="0" role="region" aria-label="{escape(caption)}"' if caption else ""
    return f'<div class="wide"{region}><table class="{kind}">{title}{head}<tbody>{rows}</tbody></table></div>'


def _listing(sentences: list[str]) -> str:
    return f'<div class="small">{_items(sentences)}</div>'


def _items(sentences: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(_sentence(text))}</li>' for text in sentences)}</ul>"


def _head(*names: str) -> str:
    cells = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    return f"<thead><tr>{cells}</tr></thead>"


def _fact(name: str, value: str) -> str:
    return f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>'


def _with_std(mean: float | None, std: float | None) -> str:
    if mean is None or std is None:
        return percent(mean)
    return f'{percent(mean)} <span class="std">± {100 * std:.2f}</span>'


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_plain, value))
    return "none" if value is None else str(value)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
