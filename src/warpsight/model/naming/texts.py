"""Texts of table name, by id."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from warpsight.model import StoredTrace


def texts(trace: StoredTrace, form: str = "demangled") -> Mapping[int, str]:
    """The string of every name id; `form` is `name` (as recorded), `demangled` or `short`. Cached while the trace is open."""
    return trace.kept.get(("names", form), lambda: _texts(trace, form))


def _texts(trace: StoredTrace, form: str) -> dict[int, str]:
    columns, coded = trace.columns("name", {"id": 0}, [form])
    listed = [*coded[form], ""]  # the last one is the placeholder for a missing string
    return {i: listed[code] for i, code in zip(columns["id"].tolist(), columns[form].tolist(), strict=True)}
