"""`gscl-scale bench`: speed and memory, compared with the best other tools."""

import importlib
import inspect
import shlex
from collections.abc import Iterator
from typing import Any

import typer

from gscl_scale.bench.harness import Bench
from gscl_scale.bench.options import BENCHES
from gscl_scale.cli.help import VerbHelp
from gscl_scale.cli.options import ConfigFile, Settings
from gscl_scale.config.config import Config
from gscl_scale.errors import UserError

bench = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@bench.callback()
def _bench() -> None:
    """Compare speed and memory with the best other tools, in one run on one machine."""


def _add(kind: type[Bench]) -> None:
    """Add the command of a bench: it makes one of this class and gives it to the function `bench_NAME`."""
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, annotation, default in [("context", typer.Context, inspect.Parameter.empty), *_options(kind)]
    ]

    def command(context: typer.Context, **given: Any) -> None:
        if "config_file" in given:
            given["config"] = Config.load(given.pop("config_file"), given.pop("settings")).among(1)
        asked = kind(command=_command(context), **given)
        try:
            module = importlib.import_module(f"gscl_scale.bench.{asked.name}")
        except ModuleNotFoundError as error:
            message = f"bench {asked.name}: {error.name} is not installed; pip install 'gscl-scale[dev]'"
            raise UserError(message) from None
        print(getattr(module, f"bench_{asked.name}")(asked))

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # where typer looks
    bench.command(kind.__name__.lower(), cls=VerbHelp, help=inspect.getdoc(kind))(command)


def _options(kind: type[Bench]) -> Iterator[tuple[str, Any, Any]]:
    """Name, annotation and default of each option; a config is read from a file and settings."""
    for name, annotation in inspect.get_annotations(kind).items():
        if annotation is Config:
            yield from (("config_file", ConfigFile, None), ("settings", Settings, None))
        else:
            yield name, annotation, getattr(kind, name, inspect.Parameter.empty)


def _command(context: typer.Context) -> str:
    """The command with the options that were given, without those that only name folders of results."""
    options, arguments = list[str](), list[str]()
    for parameter in context.command.params:
        value = context.params[str(parameter.name)]
        source = context.get_parameter_source(str(parameter.name))
        if parameter.name in ("out", "keep") or source is None or source.name == "DEFAULT":
            continue
        values = [_as_typed(one) for one in (value if isinstance(value, list | tuple) else [value])]
        if parameter.param_type_name == "argument":
            arguments += values
        elif isinstance(value, bool):
            options.append(parameter.opts[0] if value else parameter.secondary_opts[0])
        else:
            options += [word for one in values for word in (parameter.opts[0], one)]
    return shlex.join(["gscl-scale", "bench", str(context.info_name), *options, *arguments])


def _as_typed(value: object) -> str:
    short = f"{value:g}" if isinstance(value, float) else ""
    return short if short and float(short) == value else str(value)


for _kind in BENCHES:
    _add(_kind)
