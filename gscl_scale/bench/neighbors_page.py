"""The page of `bench neighbors`, from what its JSON file holds."""

from typing import Any

from gscl_scale.markdown import cores_of, table


def neighbors_page(written: dict[str, Any]) -> str:
    """Markdown: how it was measured, a table of both ways to search, and one of the index."""
    setting = written["setting"]
    sentence = (
        f"The {setting['count']} nearest nodes by cosine; {cores_of(setting['cores'])} of {setting['processor']}, "
        f"faiss {setting['versions']['faiss-cpu']}, numpy {setting['versions']['numpy']}, each way in a process of its "
        f"own. Both read the queries' own rows from the Parquet file first. Queries per second are of one question "
        f"about {setting['queries']:,} nodes; memory is what is allocated beside the program and the files that it "
        "maps; ready is the time to compare the index with its checksum and map it. Recall is the share of the exact "
        "answer that is found, on other nodes than those on which the index chose how many lists it searches. Drawn "
        "embeddings lie in 2,000 communities of 50 groups. "
        f"`{setting['command']}` makes this page:"
    )
    figures: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in written["rows"]:
        key = row["embeddings"], row["nodes"], row["width"], row["competitor"]
        figures.setdefault(key, {})[row["figure"]] = row["value"]
    order = sorted(figures.items(), key=lambda item: (item[0][1], item[0][0], item[0][3]))
    return "\n\n".join([sentence, _searches(order), "The index:", _indexes(order)])


def _searches(figures: list[tuple[tuple[Any, ...], dict[str, float]]]) -> str:
    lines = [
        [
            name,
            f"{nodes:,}",
            str(width),
            competitor,
            f"{of['recall']:.2%}",
            f"{of['ready']:,.2f} s",
            f"{of['one node']:,.2f} s",
            f"{of['queries per second']:,.0f}",
            f"{of['memory'] / 1e6:,.0f} MB",
        ]
        for (name, nodes, width, competitor), of in figures
    ]
    headers = ["embeddings", "nodes", "width", "search", "recall", "ready", "one node", "queries/s", "memory"]
    return table(headers, lines, left=(0, 3))


def _indexes(figures: list[tuple[tuple[Any, ...], dict[str, float]]]) -> str:
    lines = [
        [
            name,
            f"{nodes:,}",
            f"{of['index seconds']:,.1f} s",
            f"{of['index memory'] / 1e6:,.0f} MB",
            f"{of['index file'] / 1e6:,.0f} MB",
            f"{of['lists']:,.0f}",
            f"{of['lists searched']:,.0f}",
        ]
        for (name, nodes, _, competitor), of in figures
        if competitor == "index"
    ]
    headers = ["embeddings", "nodes", "built in", "memory", "file", "lists", "searched"]
    return table(headers, lines, left=(0,))
