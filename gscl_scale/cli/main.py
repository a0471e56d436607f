"""The command line: registers the verbs, and turns errors into one sentence and an exit code."""

import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gscl_scale.cli.demo import demo
from gscl_scale.cli.doctor.command import doctor
from gscl_scale.cli.group import lazy_group
from gscl_scale.cli.help import GroupHelp, VerbHelp, examples_of, group_of
from gscl_scale.cli.neighbors import neighbors
from gscl_scale.cli.open_run import display, places
from gscl_scale.cli.plan import plan
from gscl_scale.cli.show import config, stats, status
from gscl_scale.cli.stages import embed, evaluate, ingest, precompute, report, run, train
from gscl_scale.cli.studies import compare, reproduce, retrain, tune
from gscl_scale.errors import INTERRUPTED, STOPPED, GsclError, LeaseError, UserError
from gscl_scale.io.atomic import NOT_ALLOWED
from gscl_scale.machine import is_lack_of_memory

app = typer.Typer(
    name="gscl-scale",
    cls=GroupHelp,
    help="Compute self-supervised node embeddings of large graphs, from a graph to embeddings and a report.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for _verb in (demo, run, plan, ingest, stats, precompute, train, embed, evaluate, report, status, config, compare, tune,
              reproduce, retrain, neighbors, doctor):  # fmt: skip
    _name = _verb.__name__
    app.command(cls=VerbHelp, rich_help_panel=group_of(_name), epilog=examples_of(_name))(_verb)
for _name, _description in {
    "bench": "Compare speed and memory with the best other tools.",
    "registry": "List, show, promote, pin and roll back versions of embeddings.",
}.items():
    app.add_typer(lazy_group(_name, _description), rich_help_panel=group_of(_name), epilog=examples_of(_name))

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # typer does not export it by name
_EDGES = ("--edges", "--edge-list", "--graph", "--input", "--file")


@app.callback(invoke_without_command=True)
def _global(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from gscl_scale.version import __version__

        print(f"gscl-scale {__version__}")
        raise typer.Exit


def main() -> None:
    """Entry point: exit code 0 done, 1 the work failed, 2 bad input, 4 another process works there; 3 of retrain."""
    try:
        with places:
            sys.exit(app(prog_name="gscl-scale", standalone_mode=False) or 0)
    except _UsageError as error:
        _refuse_usage(error)
    except GsclError as error:
        _fail(str(error), 2 if isinstance(error, UserError) else 4 if isinstance(error, LeaseError) else 1)
    except NotADirectoryError as error:
        _fail(f"{error.filename}: a part of this path is a file, expected a folder; choose another --run or --out", 2)
    except FileNotFoundError as error:
        _fail(f"{error.filename}: this path, or a folder in it, does not exist; check it (finished work is kept)", 1)
    except OSError as error:
        problem = f"{error.filename or 'a file'}: {error.strerror or error}"
        if error.filename and error.errno in NOT_ALLOWED:
            _fail(f"{problem}; finished work is kept: get write access, or choose another folder", 2)
        _fail(f"{problem}; finished work is kept, rerun the command to resume", 1)
    except (MemoryError, RuntimeError) as error:
        if not is_lack_of_memory(error):
            raise
        _fail(
            "out of memory; finished work is kept: lower train.batch_size or runtime.embed_memory_gb, set "
            "model.propagation to sampled, or use a machine with more memory, and rerun the command",
            1,
        )
    except SystemExit as leaving:
        if leaving.code == INTERRUPTED:  # typer has handled the interrupt without a message
            _fail(STOPPED, INTERRUPTED)
        raise


def _refuse_usage(error: Any) -> None:
    """Refuse arguments in one sentence; a command without any gets its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        sys.exit(error.exit_code)
    command = error.ctx.command_path if error.ctx else "gscl-scale"
    sentence = error.format_message().rstrip(".")
    if cure := _cure_of_extra(sentence, error.ctx) or _cure_of_option(error):
        _fail(cure, error.exit_code)
    _fail(f"{sentence[:1].lower()}{sentence[1:]}; see {command} --help", error.exit_code)


def _cure_of_extra(sentence: str, context: Any) -> str:
    """What to type where arguments too many are names, a run or a table; "" otherwise."""
    extra = re.search(r"unexpected extra argument.*\((.+)\)", sentence)
    if not extra or not context:
        return ""
    options = {name for parameter in context.command.params for name in parameter.opts}
    if "--methods" in options and not Path(extra[1]).exists():
        graphs = ", and repeat --only for more graphs" if "--only" in options else ""
        return f"unexpected argument {extra[1]}; separate methods with commas: --methods dgi,grace{graphs}"
    place = Path(extra[1])
    if "--run" in options and (place / "run.json").exists():
        return f"{place} is a run; name it with --run {place}"
    if "--nodes" in options and place.is_file():
        return f"{place} is a second file; if it is the table of the nodes, name it with --nodes {place}"
    return ""


def _cure_of_option(error: Any) -> str:
    """What to type where an unknown option is a setting, or the file of the edges; "" otherwise."""
    given = getattr(error, "option_name", "")
    known = {name for parameter in error.ctx.command.params for name in parameter.opts} if error.ctx else set()
    if given in _EDGES and "--nodes" in known:
        return f"there is no option {given}; give the edge file as an argument: {error.ctx.command_path} edges.csv"
    if given and "--set" in known:
        from gscl_scale.config.keywords import settings_named

        typed = " or ".join(f"--set {key}=VALUE" for key in settings_named(given.lstrip("-").replace("-", "_")))
        return typed and f"there is no option {given}; it is a setting, type {typed}"
    return ""


def _fail(sentence: str, code: int) -> None:
    print(f"gscl-scale: {display(sentence)}", file=sys.stderr)
    sys.exit(code)
