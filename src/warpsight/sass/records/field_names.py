"""Names of fields that no record has: reported, because the answer to a mistyped question looks complete."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import get_args

import msgspec

from warpsight_plugins.cutracer import records

#: Fields that readers add.
_ADDED = ("sass", "caller", "kernel")


def known() -> frozenset[str]:
    """Every field that a record of some type has."""
    kinds = get_args(records.Record)
    return frozenset({"type", *_ADDED, *(f.name for kind in kinds for f in msgspec.structs.fields(kind))})


def unknown(names: Iterable[str]) -> list[str]:
    """A note for each name that is not a field of any type of record."""
    fields = known()
    notes = []
    for name in dict.fromkeys(names):
        if name not in fields:
            near = get_close_matches(name, sorted(fields), n=1)
            notes.append(f"no record has a field {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return notes
