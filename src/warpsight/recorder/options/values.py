"""Option values: parsed from strings (command line, environment), Python or a configuration file, and checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from warpsight.errors import UsageError
from warpsight.recorder.options import table as options
from warpsight.recorder.options.table import Option

_TRUE, _FALSE = ("1", "on", "true", "yes", "t", "y"), ("0", "off", "false", "no", "f", "n")


def of_text(option: Option, text: str) -> Any:
    """Parse a value from the command line or an environment variable.

    Raises:
        UsageError: for an invalid value; the message names the option and what it accepts.
    """
    if option.type == options.SWITCH:
        if text.strip().lower() not in (*_TRUE, *_FALSE):
            raise UsageError(f"{option.flag} must be on or off, not {text!r}")
        return text.strip().lower() in _TRUE
    if option.type in (options.WHOLE, options.NUMBER):
        return checked(option, _number(option, text))
    if option.type == options.TEXTS:
        return checked(option, split(option, text))
    return Path(text) if option.type == options.PATH else checked(option, text)


def of_texts(option: Option, texts: Sequence[str]) -> tuple[str, ...]:
    """The value of an option that may be repeated.

    Raises:
        UsageError: for an invalid value; the message names the option and what it accepts.
    """
    value: tuple[str, ...] = checked(option, tuple(part for text in texts for part in split(option, text)))
    return value


def of_value(option: Option, value: object) -> object:
    """Check a value given in Python or in a configuration file. A list may be a string; a number may not.

    Raises:
        UsageError: for an invalid value; the message names the option and what it accepts.
    """
    if option.type == options.TEXTS:
        value = split(option, value) if isinstance(value, str) else value
        if isinstance(value, list):
            value = tuple(value)
    elif option.type == options.TEXT:
        value = _text(option, value)
    elif option.type in (options.WHOLE, options.NUMBER) and isinstance(value, str):
        value = dict(option.words).get(value.strip().lower(), value)
    elif option.type == options.PATH and isinstance(value, str):
        value = Path(value)
    return checked(option, value)


def checked(option: Option, value: object) -> Any:
    """Check that an option accepts a value and return it; `api` is returned in the form that recorders read.

    Raises:
        UsageError: for an invalid value; the message names the option, what it accepts, and similar values.
    """
    if option.type == options.CHOICE:
        if value not in option.choices:
            raise UsageError(
                f"{option.flag} must be one of {', '.join(option.choices)}, not {value!r}{_meant(value, option.choices)}"
            )
    elif option.type == options.SWITCH:
        if not isinstance(value, bool):
            raise UsageError(f"{option.name} must be True or False, not {value!r}")
    elif option.type in (options.WHOLE, options.NUMBER):
        _check_number(option, value)
    elif option.type == options.TEXTS:
        _check_texts(option, value)
    elif not isinstance(value, Path if option.type == options.PATH else str):
        raise UsageError(f"{option.flag} must be a {option.type}, not {value!r}")
    check = _CHECKS.get(option.name)
    return value if check is None else check(value)


def split(option: Option, text: str) -> tuple[str, ...]:
    """Split one string into several."""
    for separator in option.separators:
        text = text.replace(separator, "\n")
    return tuple(part.strip() for part in text.split("\n") if part.strip())


def spelled(option: Option, value: Any) -> list[str]:
    """A value as command-line arguments."""
    if option.type == options.SWITCH:
        return [option.flag if value else option.flag.replace("--", "--no-", 1)]
    if option.type == options.TEXTS:
        return [f"{option.flag}={text}" for text in value]
    return [f"{option.flag}={number(value) if isinstance(value, float) else value}"]


def number(value: float) -> str:
    """A number without `.0`."""
    return str(int(value)) if value == int(value) else repr(value)


def _number(option: Option, text: str) -> object:
    """A number, or the unchanged string, which is then refused like any other invalid value."""
    word = dict(option.words).get(text.strip().lower())
    if word is not None:
        return word
    try:
        return int(text) if option.type == options.WHOLE else float(text)
    except ValueError:
        return text


def _check_number(option: Option, value: object) -> None:
    whole = "whole " if option.type == options.WHOLE else ""
    least, most = option.bounds or (float("-inf"), float("inf"))
    between = f"from {least:,.0f} to {most:,.0f}" + "".join(f" or {word}" for word, _ in option.words)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or (whole and value % 1):
        raise UsageError(f"{option.flag} must be a {whole}number {between}, not {value!r}")
    if not least <= value <= most:
        raise UsageError(f"{option.flag} must be a {whole}number {between}, not {value:,}")


def _check_texts(option: Option, value: object) -> None:
    if not isinstance(value, tuple) or not all(isinstance(part, str) for part in value):
        raise UsageError(f"{option.flag} takes texts, not {value!r}")
    for part in value if option.choices else ():
        if part not in option.choices:
            raise UsageError(
                f"{option.flag} takes {option.metavar.lower()} of {', '.join(option.choices)}, not {part!r}"
                f"{_meant(part, option.choices)}"
            )


def _text(option: Option, value: object) -> object:
    """A string in place of what Python accepts: a rate as a number, names as a list, a file as a path."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (tuple, list)) and all(isinstance(part, str) for part in value):
        return ",".join(value)
    if "float" in option.python and isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:g}"
    return value


def _meant(value: object, choices: Sequence[str]) -> str:
    near = get_close_matches(value, choices, n=1) if isinstance(value, str) else []
    return f"; did you mean {near[0]}?" if near else ""


def _check_backend(value: str) -> str:
    from warpsight.machine.backends import registry

    if value not in ("auto", *registry.CORE) and value not in (known := registry.recording()):
        names = ("auto", *known)
        raise UsageError(f"--backend must be one of {', '.join(names)}, not {value!r}{_meant(value, names)}")
    return value


def _check_api(value: str) -> str:
    """Refuse names that are not functions, and convert the others to the recorders' form."""
    from warpsight.capture.functions import patterns

    for pattern in patterns.unknown(value):
        if pattern in patterns.WORDS:
            raise UsageError(f"--api {pattern} cannot be combined with names: {value!r}")
        near = patterns.near(pattern)
        hint = f"; did you mean {' or '.join(near)}?" if near else f"; words: {', '.join(patterns.WORDS)}"
        raise UsageError(f"--api {pattern!r} matches no function of any API that is recorded{hint}")
    return ",".join(patterns.parts(value)) or "default"


def _check_counters(value: str) -> str:
    from warpsight.recorder.sampling import counters

    counters.parse(value)
    return value


def _check_ranges(value: tuple[str, ...]) -> tuple[str, ...]:
    if "off" in value and len(value) > 1:
        raise UsageError(f"--ranges {','.join(value)}: off stands alone")
    return value


def _check_ring(value: str) -> str:
    from warpsight.recorder.ring import bound

    if value:
        bound.parse(value)
    return value


def _check_triggers(value: tuple[str, ...]) -> tuple[str, ...]:
    from warpsight.recorder.ring import triggers

    triggers.parse(value)
    return value


def _check_export(value: str) -> str:
    if value:
        from warpsight.formats.registry import exporter

        exporter(value)
    return value


#: Checks beyond type and bounds.
_CHECKS: dict[str, Callable[[Any], Any]] = {
    "api": _check_api,
    "backend": _check_backend,
    "counters": _check_counters,
    "export": _check_export,
    "ranges": _check_ranges,
    "ring": _check_ring,
    "triggers": _check_triggers,
}
