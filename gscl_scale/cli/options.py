"""Options that several commands take."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gscl_scale.config.schema import schema_rows
from gscl_scale.errors import UserError
from gscl_scale.text import holds_secret


def _keys(begun: str) -> list[str]:
    """For the completion of a shell: keys of the configuration that begin so."""
    return [f"{key}=" for key, *_ in schema_rows() if key.startswith(begun)]


def local(text: str) -> Path:
    """A path of this machine: pathlib would make a folder `s3:` of a URL."""
    if "://" in str(text):
        told = "what is given (it seems to hold a secret)" if holds_secret(text) else text
        raise UserError(f"{told} is a URL; expected a path of this machine, a run alone may be named by a URL")
    return Path(text)


def path_option(told: str) -> Any:
    """An option that names a path of this machine."""
    return typer.Option(parser=local, metavar="PATH", help=told)


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        parser=local,
        metavar="FILE",
        help="Config file; without one that of the run, else the digits with default settings.",
    ),
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
