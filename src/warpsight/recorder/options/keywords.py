"""Keyword arguments of `ws.record` and `ws.run`: signatures and docstrings with every option, from the table."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from warpsight.recorder.options import table as options
from warpsight.recorder.options.table import Option

Function = TypeVar("Function", bound=Callable[..., Any])
_TYPES = {options.SWITCH: "bool", options.WHOLE: "int", options.NUMBER: "float", options.TEXT: "str",
          options.TEXTS: "str | Sequence[str]", options.PATH: "str | os.PathLike[str]"}  # fmt: skip
#: The line of a docstring that the options replace.
_MARK = "        options: "


def keyword_type(option: Option) -> str:
    """The type of a keyword."""
    if option.type == options.CHOICE:
        return "Literal[" + ", ".join(f'"{choice}"' for choice in option.choices) + "]"
    return option.python or _TYPES[option.type]


def takes_options(*scopes: str) -> Callable[[Function], Function]:
    """Show the options of these scopes in the signature of a function with `**options`, and in its docstring."""
    rows = options.of_scope(*scopes)

    def show(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        function.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*own, *map(_parameter, rows)]
        )
        function.__doc__ = _described(function.__doc__ or "", rows)
        return function

    return show


def _parameter(option: Option) -> inspect.Parameter:
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=keyword_type(option)
    )


def _described(text: str, rows: tuple[Option, ...]) -> str:
    """The docstring with a line per option in place of the one about all of them."""
    lines = []
    for line in text.splitlines():
        if line.startswith(_MARK):
            lines += [f"        {row.name}: {row.help}" for row in rows]
        else:
            lines.append(line)
    return "\n".join(lines)
