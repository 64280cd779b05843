"""The account of time as a small text table: class, share, time, and its largest part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpsight.analysis.account.classes import CLASSES, COMMUNICATION, COMPUTE, HOST
from warpsight.model.naming import kernel_names
from warpsight.ui.render import numbers

if TYPE_CHECKING:
    from warpsight.analysis.account import AccountSummary, Entry

#: Classes with a smaller share would be shown with 0.0%.
_LEAST = 0.0005
#: If less space than this remains next to its figures, a row's name gets its own line.
_NARROW = 24


def lines(found: AccountSummary, width: int) -> list[str]:
    """One line (two if narrow) for each class with time, largest first, at most `width` characters long."""
    shown = [one for one in found.classes if one[1] >= _LEAST * found.span]
    if not shown:
        return []
    names = [CLASSES[kind] for kind, _, _ in shown]
    times = [numbers.duration(time) for _, time, _ in shown]
    first, last = max(map(len, names)), max(map(len, times))
    out = []
    for (kind, time, entry), name, text in zip(shown, names, times, strict=True):
        head = f"  {name:{first}}  {time / found.span:6.1%}  {text:>{last}}  "
        if width - len(head) >= _NARROW:
            out.append(head + _most(found, kind, time, entry, width - len(head)))
        else:
            out += [head.rstrip(), "    " + _most(found, kind, time, entry, width - 4)]
    return out


def _most(found: AccountSummary, kind: int, time: int, entry: Entry, width: int) -> str:
    """The largest row of a class, host time with its place in the program, and its share if there are others."""
    part = entry.time / time
    rest = "" if part >= 0.995 else f", {part:.0%} of it"
    if kind == HOST and found.place:
        place = numbers.near(found.place)
        shown = numbers.shorten_paths(place, width - len(rest))
        # The line of a place is the point of it: rather that than its share.
        return numbers.shorten_paths(place, width) if rest and shown.endswith("…") else shown + rest
    if kind in (COMPUTE, COMMUNICATION):
        return kernel_names.short(entry.name, max(width - len(rest), _NARROW - len(rest))) + rest
    return numbers.shorten(entry.name, width - len(rest)) + rest


def name(kind: int, entry: Entry) -> str:
    """A row's name for people: kernels without their arguments."""
    return kernel_names.short(entry.name) if kind in (COMPUTE, COMMUNICATION) else entry.name
