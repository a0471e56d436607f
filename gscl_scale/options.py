"""Options that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", help="Config file; without one, the digits.")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="section.key=value, stronger than the file.")]
RunOption = Annotated[
    str | None, typer.Option("--run", help="Run folder, or a URL; by default runs/NAME-OF-THE-CONFIG.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
