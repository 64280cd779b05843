"""How options are described: on the command line, in pages and in docstrings."""

from __future__ import annotations

from warpsight.machine.backends import registry
from warpsight.recorder.options import table as options
from warpsight.recorder.options.table import Option
from warpsight.recorder.options.values import number


def text(option: Option) -> str:
    """An option's description, with the backends it applies to."""
    return filled(marked(option))


def marked(option: Option) -> str:
    """An option's description with placeholders for names that are slow to find."""
    return f"{option.help.removesuffix('.')} {{{option.name}}}." if option.listed else option.help


def filled(marked: str) -> str:
    """A string with its placeholders filled in."""
    for option in options.OPTIONS:
        if option.listed and (mark := f"{{{option.name}}}") in marked:
            marked = marked.replace(mark, f"({', '.join(_listed(option))})")
    return marked


def metavar(option: Option) -> str:
    """The placeholder for the value."""
    return option.metavar or "|".join(option.choices)


def default(option: Option) -> str:
    """The default as a string; "" if there is none to show."""
    if option.shown:
        return option.shown.strip("-")
    if option.type == options.SWITCH or option.default in (None, "", ()):
        return ""
    return number(option.default) if isinstance(option.default, (int, float)) else str(option.default)


def notes(option: Option) -> str:
    """The default, and a variable whose name differs from the option's, as shown in the help: `[default: python]`."""
    usual = "WARPSIGHT_" + option.flag.removeprefix("--").replace("-", "_").upper()
    parts = [f"env var: {option.environment}"] if option.environment not in ("", usual) else []
    parts += [f"default: {shown}"] if (shown := default(option)) else []
    return f"[{'; '.join(parts)}]" if parts else ""


def _listed(option: Option) -> list[str]:
    backends = [one for one in registry.recording().values() if one.name not in registry.CORE]
    if option.listed == "both":
        backends = [one for one in backends if one.in_process and one.external]
    elif option.listed == "takers":
        backends = [one for one in backends if option.name in one.tool_options]
    return [one.name for one in backends]
