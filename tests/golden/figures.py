"""The figures that answers depend on: thresholds, limits, tables of hardware and formats, as somebody has reviewed them.

`python -m tests.golden.figures` writes `answers/figures.json` anew; the difference in version control is what to review.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FunctionType, ModuleType

import numpy as np

import warpsight
from warpsight.capture.segments import layout

STORED = Path(__file__).parent / "answers" / "figures.json"
#: Where figures decide what an answer says.
PLACES = ("analysis", "capture", "device_code", "formats.kineto", "model")
#: The layout of records: of it the constants that the header for C++ repeats, and of each kind its number, the blocks of its
#: ring, whether other rows refer to it, and the type of each field.
_LAYOUT = ("capture.segments.layout.", "capture.segments.record_kinds.", "capture.segments.definition_kinds.")


class _NoFigure(Exception):
    """The value is code, or is made when it is needed."""


def figures() -> dict[str, object]:
    """Name → value of every constant, default of an argument, and default of a field that holds a number."""
    found: dict[str, object] = {}
    for name in sorted(_modules()):
        for key, value in _named(importlib.import_module(name)):
            try:
                plain = _plain(value)
            except _NoFigure:
                continue
            if _has_number(plain):
                found[f"{name.removeprefix('warpsight.')}.{key}"] = plain
    kept = {name: value for name, value in found.items() if not name.startswith(_LAYOUT)}
    kept |= {f"{_LAYOUT[0]}{one.name}": _layout(one) for one in layout.RECORDS}
    return kept | {f"{_LAYOUT[0]}{name}": value for name, value in layout.CONSTANTS.items()}


def _layout(record: layout.Struct) -> list[object]:
    members = [f"{one.type}[{one.count}] {one.name}" for one in record.fields]
    return [record.kind, record.ring_blocks, record.definition, members]


def _has_number(plain: object) -> bool:
    if isinstance(plain, (list, dict)):
        return any(map(_has_number, plain.values() if isinstance(plain, dict) else plain))
    return isinstance(plain, (int, float)) and not isinstance(plain, bool)


def _modules() -> Iterator[str]:
    source = Path(warpsight.__path__[0])
    for place in PLACES:
        for file in (source / place.replace(".", "/")).rglob("*.py"):
            yield ".".join(("warpsight", *file.relative_to(source).with_suffix("").parts)).removesuffix(
                ".__init__"
            )


def _named(module: ModuleType) -> Iterator[tuple[str, object]]:
    """What a module names: its own figures, and those of its functions and classes."""
    tree = ast.parse(inspect.getsource(module))
    assigned = {
        one.id for one in ast.walk(tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }
    for name, value in sorted(vars(module).items()):
        if name.startswith("__") or isinstance(value, (str, ModuleType)):
            continue
        if not isinstance(value, (type, FunctionType)):
            if name in assigned:
                yield name, value
        elif value.__module__ == module.__name__:
            yield from ((f"{name}.{key}", one) for key, one in _defaults(value))


def _defaults(made: type | FunctionType) -> Iterator[tuple[str, object]]:
    if isinstance(made, FunctionType):
        yield "()", [*(made.__defaults__ or ()), *(made.__kwdefaults__ or {}).items()]
        return
    for name, value in sorted(vars(made).items()):
        if isinstance(value, FunctionType) and not name.startswith("__"):
            yield from ((f"{name}{key}", one) for key, one in _defaults(value))
        elif not name.startswith("_") and not callable(value):
            yield name, value


def _plain(value: object) -> object:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, re.Pattern):
        return _plain(value.pattern)
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _plain(one) for key, one in value.items()}
        return [[_plain(key), _plain(one)] for key, one in value.items()]
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(one) for one in value), key=str)
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    raise _NoFigure


def text(found: Mapping[str, object]) -> str:
    """Figures as JSON, one a line."""
    lines = (f"{json.dumps(name)}: {json.dumps(value, sort_keys=True)}" for name, value in found.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    STORED.write_text(text(figures()), encoding="utf-8")
