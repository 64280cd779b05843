"""The typer side of the command line: verbs are imported when they are used, errors become messages and exit codes."""

from __future__ import annotations

import errno
import functools
import importlib
import inspect
import os
import re
import shutil
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast

import typer
from typer.core import TyperCommand, TyperGroup

from warpsight.errors import NO_MEMORY, WarpsightError, out_of_memory
from warpsight.formats import following
from warpsight.ui.cli import examples
from warpsight.ui.cli.app import OTHER_WORDS, VERBS, module_of
from warpsight.ui.cli.options import SIDES
from warpsight.ui.render import terminal

if TYPE_CHECKING:
    from warpsight.formats.source import Source

#: Verbs that move the cursor on standard output; their drawing code makes text printable.
MOVING = frozenset({"top"})
_MOST_BITS = 63
#: Base of the parser's own errors; typer brings its parser along or uses click's, depending on its version.
_ParserError: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


class _Refusal(Protocol):
    """An error of the parser's."""

    exit_code: int

    def format_message(self) -> str:
        """What is wrong with the command line."""


class _LazyGroup(TyperGroup):
    """A group whose verbs are modules, imported on first use."""

    def list_commands(self, ctx: object) -> list[str]:
        """Names of all verbs, in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: object, cmd_name: str) -> Any:
        """The parser of one verb, or None without one."""
        return verb_command(cmd_name) if cmd_name in VERBS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the verb, or suggest a similar one."""
        if args and args[0] not in VERBS and not ctx.resilient_parsing:
            ctx.fail(unknown_verb(args[0]))
        return super().resolve_command(ctx, args)


class _VerbCommand(TyperCommand):
    """A verb whose usage line shows its required argument without braces (`TRACE`); typer adds braces to some."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of the command line; refuse numbers that 64 bits cannot hold, as no row or count needs them."""
        found: list[str] = super().parse_args(ctx, args)
        for value in ctx.params.values():
            for number in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(number, int) and number.bit_length() > _MOST_BITS:
                    ctx.fail(f"{number} is too large a number")
        if not ctx.resilient_parsing:
            self._check_paths(ctx)
        return found

    def _check_paths(self, ctx: Any) -> None:
        """Refuse to replace a file that the verb reads, and to take the `--` before a program as a value."""
        values = [(parameter, _listed(ctx.params.get(parameter.name))) for parameter in self.get_params(ctx)]
        for parameter, given in values:
            if parameter.param_type_name == "option" and "--" in map(str, given):
                ctx.fail(f"Option {parameter.opts[-1]!r} requires an argument.")
        read = [one for parameter, given in values if "-o" not in parameter.opts for one in given]
        for parameter, given in values:
            if "-o" in parameter.opts and any(_same_file(path, one) for path in given for one in read):
                ctx.fail(f"{given[0]} is what this command reads; choose another name with -o")

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line behind the verb's name."""
        return [piece.removeprefix("{").removesuffix("}") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then options under the headings of their groups, where they have any."""
        parameters = self.get_params(ctx)
        groups = [found for p in parameters if (found := getattr(p, "rich_help_panel", None))]
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for parameter in parameters:
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            other = "Arguments" if parameter.param_type_name == "argument" else next(iter(groups), "Options")
            heading = getattr(parameter, "rich_help_panel", None) or other
            sections.setdefault(heading, []).append((record[0], _filled(record[1])))
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    # in a narrow terminal most names have a line of their own
                    formatter.write_dl(
                        records, col_max=30 if formatter.width >= _ROOMY else formatter.width // 4
                    )


def _listed(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else () if value is None else (value,)


def _same_file(path: object, other: object) -> bool:
    try:
        return isinstance(other, (str, Path)) and os.path.samefile(str(path), other)
    except (OSError, ValueError):
        return False


def _filled(text: str) -> str:
    """A help text with the names that are slow to look up, such as those of backends."""
    if "{" not in text:
        return text
    from warpsight.recorder.options import help as option_help

    return option_help.filled(text)


class _SidesCommand(_VerbCommand):
    """A verb whose arguments are two sides with `--` between them; options may stand on either side.

    The `--` reaches the verb as :data:`~warpsight.ui.cli.options.SIDES`, where the parser would drop it.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of the command line."""
        found: list[str] = super().parse_args(ctx, [SIDES if arg == "--" else arg for arg in args])
        return found


class _ProgramCommand(_VerbCommand):
    """A verb about a trace, or about a program after `--`, whose options are not read as ours.

    The `--` reaches the verb as :data:`~warpsight.ui.cli.options.SIDES`, where the parser would drop it.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of the command line."""
        place = args.index("--") if "--" in args else len(args)
        program = ["--", SIDES, *args[place + 1 :]] if place < len(args) else []
        found: list[str] = super().parse_args(ctx, [*args[:place], *program])
        return found


def verb_command(name: str) -> Any:
    """The parser of a verb, made from its module's `command`; for a folder of verbs, `BELOW` names the verbs in it."""
    module = importlib.import_module(module_of(name))
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    if not hasattr(module, "BELOW"):
        command = _evaluated(module.command)
        kind = _SidesCommand if getattr(module, "HAS_SIDES", False) else _VerbCommand
        epilog = "\n\n".join(filter(None, (examples.text(name), getattr(module, "EPILOG", "")))) or None
        app.command(name, cls=kind, context_settings=_settings(module), epilog=epilog)(
            command if _runs_here(name) else _refusing(name, command)
        )
        return _with_completion(name, typer.main.get_command(app))
    app = typer.Typer(cls=_group(module), add_completion=False, rich_markup_mode=None)
    app.callback(context_settings=_settings(module))(module.command)
    return typer.main.get_command(app)


def _with_completion(name: str, command: Any) -> Any:
    """The same parser, whose values a shell can complete while it asks for them."""
    if "_WARPSIGHT_COMPLETE" in os.environ:
        from warpsight.ui.cli import completion

        completion.add(name, command)
    return command


def _runs_here(name: str) -> bool:
    """Whether a verb can do its work on this system."""
    return not VERBS[name].systems or sys.platform.startswith(VERBS[name].systems)


def _refusing(name: str, command: Callable[..., None]) -> Callable[..., None]:
    """The same options, raising an error instead of doing the work."""

    @functools.wraps(command)
    def refuse(*_: object, **__: object) -> None:
        raise WarpsightError(
            f"{name} needs Linux: on this system warpsight reads, analyzes and exports recordings made elsewhere"
        )

    return refuse


def _group(module: ModuleType) -> type[TyperGroup]:
    """The group of a folder's verbs, each imported on first use."""

    class _Below(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            self.commands = _Verbs(module)

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            """Each verb with its whole first sentence, under the headings of the folder where it has any."""
            sections: dict[str, list[tuple[str, str]]] = {}
            for name in self.commands:
                heading = module.BELOW[name] if isinstance(module.BELOW, dict) else "Commands"
                sections.setdefault(heading, []).append(
                    (name, self.commands[name].get_short_help_str(_WHOLE))
                )
            for heading, verbs in sections.items():
                with formatter.section(heading):
                    formatter.write_dl(verbs)

    return _Below


def places_below(module: ModuleType) -> dict[str, str]:
    """Where the modules of a folder's verbs are: in it, or in the folder that `FOLDERS` has for a verb's heading."""
    folders = getattr(module, "FOLDERS", {})
    below = module.BELOW if isinstance(module.BELOW, dict) else dict.fromkeys(module.BELOW)
    rooms = {name: f".{folders[heading]}" if heading in folders else "" for name, heading in below.items()}
    return {name: f"{module.__name__}{room}.{name}" for name, room in rooms.items()}


class _Verbs(dict[str, Any]):
    """Verbs by name, in the order of the folder's `BELOW`, created on lookup.

    A module's `SYSTEMS` are those that its verb works on, where they are not those of the folder's verb.
    """

    def __init__(self, module: ModuleType) -> None:
        super().__init__(dict.fromkeys(module.BELOW))
        self._folder = module.__name__
        self._places = places_below(module)

    def __getitem__(self, name: str) -> object:
        if super().__getitem__(name) is None:
            module = importlib.import_module(self._places[name])
            app = typer.Typer(add_completion=False, rich_markup_mode=None)
            kind = _ProgramCommand if getattr(module, "TAKES_PROGRAM", False) else _VerbCommand
            group = self._folder.rpartition(".")[2]
            command = _evaluated(module.command)
            systems = getattr(module, "SYSTEMS", VERBS[group].systems)
            if systems and not sys.platform.startswith(systems):
                command = _refusing(f"{group} {name}", command)
            epilog = examples.text(f"{group} {name}") or None
            app.command(name, cls=kind, context_settings=_settings(module), epilog=epilog)(command)
            self[name] = _with_completion(f"{group} {name}", typer.main.get_command(app))
        return super().__getitem__(name)

    def get(self, name: str, default: object = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 - it is what the rule calls


def _evaluated(command: Callable[..., None]) -> Callable[..., None]:
    """The function with its annotations resolved to types. Left as strings, they would be evaluated seven times."""
    command.__annotations__ = inspect.get_annotations(command, eval_str=True)
    return command


#: More characters than a first sentence has.
_WHOLE = 1_000
#: Help is as wide as the terminal, between these; wider lines are harder to read.
_NARROWEST, _WIDEST = 36, 100
#: Minimum width at which options and their descriptions fit side by side.
_ROOMY = 60
#: How much of a word and of the one that was meant is the same, at least.
_SIMILAR = 0.7
#: The parser's message when a value is not a number.
_NOT_A_NUMBER = re.compile(r"is not a valid (int|float)(?: range)?")


def _settings(module: object) -> dict[str, Any]:
    columns = shutil.get_terminal_size().columns
    return {
        "help_option_names": ["-h", "--help"],
        "terminal_width": max(min(columns, _WIDEST) - 2, _NARROWEST),  # the parser's own least is 50
        **getattr(module, "CONTEXT_SETTINGS", {}),
    }


def unknown_verb(name: str) -> str:
    """The message for a verb that does not exist."""
    from difflib import get_close_matches

    if name.endswith(".py") and os.path.exists(name):
        return f"{name} is a program; record it: warpsight record -- python {name}"
    if name in OTHER_WORDS:
        return f"there is no verb {name!r}; did you mean {OTHER_WORDS[name]}?"
    if name.endswith((".warp", ".zip", ".gz", ".json", ".sqlite")) or os.sep in name:
        return f"{name} does not exist, and is not a verb"
    near = get_close_matches(name, VERBS, n=2)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; `warpsight help --all` lists the verbs"
    return f"there is no verb {name!r}{hint}"


def _global_options(
    context: typer.Context,
    no_color: Annotated[bool, typer.Option("--no-color", help="No colors, even on a terminal.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Errors and results only, no notes.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="More notes; tracebacks of internal errors.")
    ] = False,
    version: Annotated[bool, typer.Option("--version", help="Show versions and exit.")] = False,
) -> None:
    """Records GPU programs and answers from the recording."""
    terminal.configure(color=False if no_color else None, verbosity=int(verbose) - int(quiet))
    if context.invoked_subcommand not in MOVING:
        terminal.guard()
    if version:
        sys.stdout.write(importlib.import_module("warpsight.ui.cli.about.installed").text())
        raise typer.Exit


def application() -> Any:
    """The parser of the whole command line."""
    app = typer.Typer(
        cls=_LazyGroup,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_global_options)
    return typer.main.get_command(app)


def _reading(source: Source) -> AbstractContextManager[None]:
    from warpsight.ui.render import reading

    return reading.shown(source)


def run(arguments: list[str]) -> int:
    """Parse and run; every error that a user can act on is one message on standard error."""
    if sys.stderr.isatty():
        following.shown = _reading
    try:
        parser = application()
        if "_WARPSIGHT_COMPLETE" in os.environ:
            parser.main(args=arguments, prog_name="warpsight")
        # Not main(): it would turn a closed pipe into a plain failure.
        with parser.make_context("warpsight", arguments) as context:
            result = parser.invoke(context)
    except WarpsightError as error:
        if terminal.verbosity() > 0 and error.__cause__ is not None:
            traceback.print_exception(error)
        terminal.error(str(error))
        return error.exit_code
    except _ParserError as error:
        return _usage(cast(_Refusal, error))
    except typer.Exit as end:
        return end.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno == errno.EBADF:
            raise  # standard output was closed when we began
        name = str(error.filename or "").replace("\n", "\\n")
        terminal.error(f"{name}: {error.strerror}" if name else _nameless(error))
        return 1
    except Exception as error:
        if isinstance(error, RuntimeError) and str(error) == "Query interrupted":
            raise KeyboardInterrupt from None  # DuckDB's exception for Ctrl-C
        if isinstance(error, RuntimeError) and str(error).startswith(
            "Symlink loop from "
        ):  # pathlib, before Python 3.13
            terminal.error(
                f"{str(error).split(' from ', 1)[1]} is a symbolic link to itself, perhaps through others"
            )
            return 1
        if out_of_memory(error):
            terminal.error(f"this {NO_MEMORY}")
            return 1
        return _internal(error)
    return result if isinstance(result, int) else 0


def _usage(error: _Refusal) -> int:
    context = getattr(error, "ctx", None)
    kinds = {"int": "is not a whole number", "float": "is not a number"}
    message = error.format_message()
    name = getattr(error, "option_name", "")
    if name and hasattr(error, "possibilities"):  # the parser also suggests options that share a few letters
        near = [one for one in getattr(error, "possibilities", None) or () if _alike(name, one)]
        message = f"No such option: {name}" + (f"; did you mean {' or '.join(near)}?" if near else "")
    terminal.error(_NOT_A_NUMBER.sub(lambda found: kinds[found[1]], message))
    if context is not None:
        sys.stderr.write(f"{context.command_path.strip()} --help explains the options\n")
    return error.exit_code


def _alike(name: str, other: str) -> bool:
    from difflib import SequenceMatcher

    return SequenceMatcher(None, name.lstrip("-"), other.lstrip("-")).ratio() >= _SIMILAR


def _nameless(error: OSError) -> str:
    """A system error without a file name, most often because the shell's folder was removed or recreated."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return "the working directory no longer exists; change to one that does: cd ~"
    return error.strerror or str(error)


def _internal(error: Exception) -> int:
    if terminal.verbosity() > 0:
        traceback.print_exception(error)
    else:
        terminal.error(f"internal error: {type(error).__name__}: {error} (this is a bug; -v shows where)")
    return 1
