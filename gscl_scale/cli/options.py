"""Options that several commands take, and the kinds of all others."""

import contextlib
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from gscl_scale.errors import UserError
from gscl_scale.text import holds_secret


def _keys(begun: str) -> list[str]:
    """Keys of the configuration that start with the given text, for the completion of a shell."""
    from gscl_scale.config.schema import schema_rows

    return [f"{key}=" for key, *_ in schema_rows() if key.startswith(begun)]


def _local_path(text: str) -> Path:
    """Refuse URLs: pathlib would make a folder `s3:` of one."""
    if "://" in str(text):
        shown = "the path (it seems to hold a secret)" if holds_secret(text) else text
        raise UserError(f"{shown} is a URL; expected a local path, because only runs and registries may be at a URL")
    return Path(text)


def path_option(description: str) -> Any:
    """An option that takes a local path."""
    return typer.Option(parser=_local_path, metavar="PATH", help=description)


def number_option(description: str, least: float) -> Any:
    """An option that takes a number of at least `least`; a whole one where that is an int."""
    kind, name = (int, "a whole number") if isinstance(least, int) else (float, "a number")

    def number(text: str) -> float:
        with contextlib.suppress(ValueError):
            if least <= (value := kind(text)) < math.inf:
                return value
        raise typer.BadParameter(f"expected {name}, at least {least:g}, got {text!r}")

    return typer.Option(parser=number, metavar="NUMBER", help=description)


def _config_option(description: str) -> Any:
    return typer.Option("--config", "-c", parser=_local_path, metavar="FILE", help=description)


ConfigFile = Annotated[Path | None, _config_option("Config file. Defaults to the config stored in the run folder.")]
RetrainConfigFile = Annotated[
    Path | None, _config_option("Config file that names the graph. Needed unless --set graph.source names one.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", autocompletion=_keys, help="Override one key of the config; can be repeated."
    ),
]
GraphFile = Annotated[
    Path | None,
    typer.Argument(
        parser=_local_path,
        metavar="FILE",
        help="Edge list (.csv, .tsv, .txt, .edges, .mtx, packed or not), .parquet, .npz, or a folder of tables.",
    ),
]
NodesFile = Annotated[
    Path | None,
    typer.Option("--nodes", parser=_local_path, metavar="FILE", help="With FILE: the table of the nodes."),
]
RunOption = Annotated[
    str | None,
    typer.Option("--run", metavar="PLACE", help="Run folder or URL. Defaults to runs/NAME, named after the config."),
]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Remove what the run folder has from other settings or other input files."),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Print what would run, with estimates of time, memory and disk; write nothing."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
