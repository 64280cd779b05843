"""Shared parts of all pages: templates, packaged assets, and data that cannot break out of its script element."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray


@cache
def asset(name: str) -> str:
    """Text of a file in `assets`."""
    return (files("warpsight.ui.render") / "assets" / name).read_text(encoding="utf-8")


def page(template: str, *, css: Sequence[str], js: Sequence[str], data: object, **values: object) -> str:
    """A self-contained page; text from a trace is escaped, and all styles and scripts are our own.

    The template gets `css`, `js`, `data` (for a script element of type application/json), `version` and the values.
    """
    import jinja2
    from markupsafe import Markup

    from warpsight._version import __version__

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(asset), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters["commands"] = _commands
    return environment.get_template(template).render(
        css=Markup("\n".join(asset(name) for name in css)),
        js=Markup("\n".join(asset(name) for name in js)),
        data=Markup(_script_json(data)),
        version=__version__,
        **values,
    )


def _commands(text: str) -> str:
    """A string with the parts in backquotes as code."""
    from markupsafe import Markup, escape

    parts = str(text).split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(
        escape(part) if i % 2 == 0 else Markup("<code>{}</code>").format(part) for i, part in enumerate(parts)
    )


def _script_json(value: object) -> str:
    """JSON without `<`, so that no string can close its script element."""
    import msgspec

    return msgspec.json.encode(value).decode().replace("<", "\\u003c")


def column(values: NDArray[Any]) -> dict[str, str]:
    """Whole numbers as the smallest typed array that fits: `kind` and `data`."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    fits = (
        kind for kind, most in (("u1", 1 << 8), ("u2", 1 << 16), ("u4", 1 << 32)) if low >= 0 and high < most
    )
    kind = next(fits, "f8")
    return {"kind": kind, "data": packed(values, kind)}


def packed(values: NDArray[Any], kind: str) -> str:
    """An array as base64 of its little-endian bytes; `kind` is a NumPy type with a matching typed array in the page."""
    return base64.b64encode(np.ascontiguousarray(values, np.dtype(kind).newbyteorder("<")).tobytes()).decode()
