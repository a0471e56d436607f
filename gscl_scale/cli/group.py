"""Groups of commands whose module is imported when one of them, or their help, is asked for."""

import functools
import importlib
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group


def lazy_group(name: str, description: str) -> typer.Typer:
    """The commands of the Typer `NAME` in the module `gscl_scale.cli.NAME`."""

    class LazyGroup(TyperGroup):
        """A group that takes its commands from the other one."""

        @functools.cached_property
        def commands(self) -> Any:  # type: ignore[override]  # an attribute that is set when a group is made
            """The commands by their names."""
            return get_group(getattr(importlib.import_module(f"gscl_scale.cli.{name}"), name)).commands

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            del self.commands  # none: they are found when they are needed

    return typer.Typer(name=name, help=description, no_args_is_help=True, cls=LazyGroup)
