"""Defaults of `warpsight record` in a file: table `record` of `warpsight.toml`, or `tool.warpsight.record` of `pyproject.toml`.

The nearest file upwards from the working directory that has the table is read; `WARPSIGHT_CONFIG` names another one, or `off`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from warpsight.errors import UsageError
from warpsight.recorder.options import table as options

VARIABLE = "WARPSIGHT_CONFIG"
_OWN, _PROJECT = "warpsight.toml", "pyproject.toml"


@dataclass(frozen=True)
class Config:
    """The configuration table as written; `path` is None without a file."""

    path: Path | None = None
    table: Mapping[str, Any] = field(default_factory=dict)


def keys() -> list[str]:
    """Options that a file may set."""
    return [option.name for option in options.OPTIONS if option.environment and option.in_file]


def read(environment: Mapping[str, str], folder: Path) -> Config:
    """The configuration for a recording that is started in `folder`.

    Raises:
        UsageError: for a file that is not TOML, an unknown key or table, or a named file that does not exist.
    """
    named = environment.get(VARIABLE, "")
    if named == "off":
        return Config()
    for path in [Path(named)] if named else _candidates(folder):
        table = _table(path, required=bool(named))
        if table is not None:
            _check_keys(path, table)
            return Config(path, table)
    return Config()


def _candidates(folder: Path) -> Iterator[Path]:
    for place in (folder, *folder.parents):
        for name in (_OWN, _PROJECT):
            if (place / name).is_file():
                yield place / name


def _table(path: Path, *, required: bool) -> dict[str, Any] | None:
    """The file's table; None if it has none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        if not required:
            return None
        raise UsageError(f"{VARIABLE} names {path}, which cannot be read: {error}") from None
    project = path.name == _PROJECT
    if project and "warpsight" not in text:  # parsing takes longer than looking
        return None
    content = _parsed(path, text)
    for name in ("tool", "warpsight") if project else ():
        content = _inner(path, content, name)
    _check_tables(path, content, "tool.warpsight.record" if project else "record")
    found = _inner(path, content, "record")
    return found if found or not project else None


def _inner(path: Path, content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The table of this name in another one; empty where there is none."""
    found = content.get(name, {})
    if not isinstance(found, dict):
        raise UsageError(f"{path}: {name} is a table")
    return found


def _parsed(path: Path, text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return dict(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}") from None


def _check_tables(path: Path, content: Mapping[str, Any], table: str) -> None:
    """Refuse what stands beside the table: it would be ignored."""
    for name in content:
        if name != "record":
            known = _key_of(name)
            what = (
                f"{known} belongs" if known else f"there is no {name!r}: options of `warpsight record` belong"
            )
            raise UsageError(f"{path}: {what} below [{table}]")


def _check_keys(path: Path, table: Mapping[str, Any]) -> None:
    known = keys()
    for name in table:
        if name not in known:
            near = [_key_of(name)] if _key_of(name) else get_close_matches(name.replace("-", "_"), known, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; options: {', '.join(known)}"
            raise UsageError(f"{path}: there is no option {name!r}{hint}")


def _key_of(name: str) -> str:
    """The key of an option that is spelled so as a key or on the command line, or ""."""
    wanted = name.replace("_", "-")
    for key in keys():
        spelled = (flag.lstrip("-") for flag in options.BY_NAME[key].spelled)
        if wanted in (key.replace("_", "-"), *spelled):
            return key
    return ""
