"""The user's options and where each was given: on the command line, otherwise in a variable, or else in a configuration file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsight.errors import UsageError
from warpsight.recorder.options import config_file
from warpsight.recorder.options import table as options
from warpsight.recorder.options import values as option_values
from warpsight.recorder.options.table import Option

COMMAND_LINE = "command line"


@dataclass(frozen=True)
class Given:
    """Options with a value other than the default, and the source of each."""

    values: Mapping[str, Any]
    #: :data:`COMMAND_LINE`, the name of a variable, or the path of a configuration file.
    sources: Mapping[str, str]
    #: The configuration file, or None.
    file: Path | None = None

    def get(self, name: str) -> Any:
        """The value of an option, or its default."""
        return self.values.get(name, options.BY_NAME[name].default)

    def of_scope(self, *scopes: str) -> dict[str, Any]:
        """The values of options of these scopes."""
        return {name: value for name, value in self.values.items() if options.BY_NAME[name].scope in scopes}

    def by_hand(self, name: str) -> bool:
        """Whether an option was given to this command itself, not through inherited variables or a file."""
        return self.sources.get(name) == COMMAND_LINE

    def without(self, names: Iterable[str]) -> Given:
        """The given options without these."""
        left = {name: value for name, value in self.values.items() if name not in set(names)}
        return Given(left, {name: self.sources[name] for name in left}, self.file)

    def from_file(self) -> list[str]:
        """Options whose values are in the configuration file."""
        return [name for name, source in self.sources.items() if self.file and source == str(self.file)]


def gather(command_line: Mapping[str, Any], environment: Mapping[str, str], folder: Path) -> Given:
    """Options of `record` from the parsed command line (None: not given), the environment, and a file.

    Raises:
        UsageError: for a value that an option does not accept; the message says where it comes from.
    """
    config = config_file.read(environment, folder)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for option in options.OPTIONS:
        found = _find(option, command_line, environment, config)
        if found is not None:
            values[option.name], sources[option.name] = found
    given = Given(values, sources, config.path)
    return given.without(
        [name for name, source in sources.items() if _is_idle(options.BY_NAME[name], source, given)]
    )


def _find(option: Option, command_line: Mapping[str, Any], environment: Mapping[str, str],
          config: config_file.Config) -> tuple[Any, str] | None:  # fmt: skip
    value = command_line.get(option.name)
    if value is not None and value != []:
        return _of_command_line(option, value), COMMAND_LINE
    if option.environment and (text := environment.get(option.environment)):
        return _sourced(option_values.of_text, option, text, option.environment), option.environment
    if option.name in config.table:
        path = str(config.path)
        return _sourced(option_values.of_value, option, config.table[option.name], path), path
    return None


def _of_command_line(option: Option, value: bool | str | Sequence[str]) -> object:
    """A value as the parser passes it: a switch, a string, or several strings.

    Raises:
        UsageError: for an invalid value; the message names the option and what it accepts.
    """
    if isinstance(value, bool):
        return value
    return (
        option_values.of_text(option, value)
        if isinstance(value, str)
        else option_values.of_texts(option, value)
    )


def _sourced(read: Callable[[Option, Any], object], option: Option, value: object, source: str) -> object:
    try:
        return read(option, value)
    except UsageError as error:
        raise UsageError(f"{error} (set by {source})") from None


def _is_idle(option: Option, source: str, given: Given) -> bool:
    """Whether a value is a default for another kind of recording: triggers in a variable without a ring."""
    return bool(option.needs) and source != COMMAND_LINE and not given.get(option.needs)
