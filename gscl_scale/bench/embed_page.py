"""The page of `bench embed`, from what its JSON file holds."""

from typing import Any

from gscl_scale.markdown import cores_of, table, turns_of


def embed_page(written: dict[str, Any]) -> str:
    """Markdown: one sentence about the setting, and the table."""
    setting = written["setting"]
    sentence = (
        f"Embeddings of all nodes with {setting['layers']} layers of width {setting['width']}, without sampling, from "
        f"the graph folder to the Parquet file, all of it in the time; {cores_of(setting['cores'])} of "
        f"{setting['processor']}, {turns_of(setting['turns'])}. Edges per second are those of all layers. Allocated is "
        "what the work takes beside the program and the files that it maps, and in brackets what it says before it "
        "begins that this is at the most; peak memory is all of it, mapped files included where they are in memory. "
        f"`{setting['command']}` makes this table:"
    )
    return f"{sentence}\n\n{_measured(written['rows'])}"


def _measured(rows: list[dict[str, Any]]) -> str:
    figures: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in rows:
        key = row["nodes"], row["edges"], row["features"], row["encoder"], row["graph"]
        figures.setdefault(key, {})[row["figure"]] = row["value"]
    lines = [
        [
            f"{nodes:,}",
            f"{edges:,}",
            f"{features:,}",
            encoder,
            f"{of['seconds']:,.1f} s",
            f"{of['file_seconds']:,.1f} s",
            f"{of['nodes_per_second']:,.0f}",
            f"{of['edges_per_second'] / 1e6:,.2f} million",
            f"{of['allocated'] / 1e9:,.2f} ({of['memory_bound'] / 1e9:,.2f}) GB",
            f"{of['peak_memory'] / 1e9:,.2f} GB",
            f"{of['scratch'] / 1e9:,.2f} GB",
        ]
        for (nodes, edges, features, encoder, _), of in figures.items()
    ]
    headers = [
        "nodes", "edges", "features", "encoder", "time", "of it the file", "nodes/s", "edges/s", "allocated (at most)",
        "peak memory", "scratch on disk",
    ]  # fmt: skip
    return table(headers, lines, left=(3,))
