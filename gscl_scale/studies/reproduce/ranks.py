"""The average ranks of the lines of a table: a section of its page, and what its JSON file has of them."""

from collections.abc import Mapping

from gscl_scale.evaluate.average_ranks import ALPHA, AverageRanks, average_ranks
from gscl_scale.studies.reproduce.cells import Record
from gscl_scale.studies.reproduce.tables import Line, Table
from gscl_scale.text import table as markdown


def ranks_of_table(table: Table, records: Mapping[tuple[str, str], Record]) -> AverageRanks | None:
    """Rank the lines by test accuracy; None where a table compares no methods, or has too few graphs.

    Lines that share all their cells are one method, under the names of all.
    """
    if table.shape != "table" or table.against or table.measures[0] != "accuracy":
        return None
    sharing: dict[str, list[str]] = {}
    for line in table.lines:
        cells = [(graph, id(record)) for (name, graph), record in records.items() if name == line.name]
        sharing.setdefault(str([line.of, cells] if cells else line.name), []).append(line.name)
    names = {lines[0]: " = ".join(lines) for lines in sharing.values()}
    figures = {
        (names[line.name], graph): mean
        for line in table.lines if line.name in names
        for graph in table.graphs if (line.name, graph) in records
        if (mean := _test_accuracy(records[line.name, graph], line)) is not None
    }  # fmt: skip
    return average_ranks(figures)


def _test_accuracy(record: Record, line: Line) -> float | None:
    accuracy: Mapping[str, object] = record["figures"].get("probe", {}).get(line.of, {})
    mean = accuracy.get("test_mean")
    return mean if isinstance(mean, float) else None


def picture_of_ranks(name: str) -> str:
    """The file name of the diagram of a table."""
    return f"{name}_ranks.png"


def ranks_section(name: str, table: Table, found: AverageRanks) -> list[str]:
    """The paragraphs of the page."""
    rows = [[line, f"{rank:.2f}"] for line, rank in sorted(found.ranks.items(), key=lambda each: each[1])]
    methods = len(found.ranks)
    chance = "< 0.0001" if found.p_value < 1e-4 else f"= {found.p_value:.4f}"
    alike: dict[str, list[str]] = {}
    for what, reason in found.left_out.items():
        alike.setdefault(reason, []).append(what)
    apart = [f"{', '.join(names)} ({reason})" for reason, names in alike.items()]
    sentences = [
        f"Friedman test: chi-square {found.chi_square:.2f} with {methods - 1} degrees of freedom, p {chance}.",
        f"Nemenyi test at {100 * ALPHA:g} %: two lines differ significantly if the Friedman test finds a difference "
        f"and their average ranks differ by {found.critical:.2f} or more. {_together(found)}",
        *([f"Left out: {'; '.join(apart)}."] if apart else []),
    ]
    return [
        f"Average rank by test accuracy over {', '.join(found.graphs)}; 1 is the best, and equal figures share a rank:",
        markdown(["", "average rank"], rows, left=(0,)),
        "\n".join(f"- {sentence}" for sentence in sentences),
        f"![Average ranks: {table.title}]({picture_of_ranks(name)})",
    ]


def _together(found: AverageRanks) -> str:
    groups = [", ".join(group) for group in found.groups()]
    return f"Groups without a significant difference: {'; '.join(groups)}." if groups else "All lines differ."


def ranks_as_json(found: AverageRanks) -> dict[str, object]:
    """The ranks, the tests, and what is left out."""
    return {
        "graphs": found.graphs,
        "average_ranks": found.ranks,
        "friedman": {"chi_square": found.chi_square, "p_value": found.p_value},
        "nemenyi": {"alpha": ALPHA, "critical_difference": found.critical, "groups": list(found.groups())},
        "left_out": found.left_out,
    }
