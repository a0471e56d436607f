"""Options that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

from gscl_scale.config import schema_rows


def _keys(begun: str) -> list[str]:
    """For the completion of a shell: keys of the configuration that begin so."""
    return [f"{key}=" for key, *_ in schema_rows() if key.startswith(begun)]


ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="Config file; without one, the digits with default settings."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", autocompletion=_keys, help="A setting, stronger than the file; can be repeated."
    ),
]
RunOption = Annotated[
    str | None, typer.Option("--run", metavar="PLACE", help="Run folder, or a URL; by default runs/NAME-OF-THE-CONFIG.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
