"""Options of a recording on the command line, from their table."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

import typer

from warpsight.recorder.options import help as option_help
from warpsight.recorder.options import table as options
from warpsight.recorder.options.table import Option

Command = TypeVar("Command", bound=Callable[..., None])


def takes(rows: Iterable[Option]) -> Callable[[Command], Command]:
    """Add options to a command that has `**values`: None for options not given, otherwise the string, strings, or switch."""

    def add(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        command.__signature__ = signature.replace(parameters=[*own, *map(_parameter, rows)])  # type: ignore[attr-defined]
        return command

    return add


def _parameter(option: Option) -> inspect.Parameter:
    kind: Any = str
    flags = list(option.spelled)
    if option.type == options.SWITCH:
        kind = bool
        if option.environment and option.in_file:
            flags[-1] += f"/--no-{flags[-1].removeprefix('--')}"
    elif option.type == options.TEXTS:
        kind = list[str]
    choices = option.choices
    info = typer.Option(
        *flags, metavar=option_help.metavar(option) or None, show_default=False,
        help=f"{option_help.marked(option)}  {option_help.notes(option)}".rstrip(),
        rich_help_panel=option.group, autocompletion=(lambda: list(choices)) if choices else None,
    )  # fmt: skip
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, info]
    )
