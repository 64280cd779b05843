"""What `--api` can name: the functions of every API that a recorder hears, and the words that stand for sets of them."""

from __future__ import annotations

import re
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache

from warpsight.capture import functions
from warpsight.capture.segments import layout

#: Values of `--api` that are no names of functions.
WORDS = ("default", "launches", "all", "off")
_VERSION = re.compile(r"(_v\d+|_pts[dz])+$")
#: Functions of MACA, which have no list: the recorder names those that it meets.
_UNLISTED = ("mc", "wc")


@lru_cache(maxsize=1)
def known() -> frozenset[str]:
    """Names of all functions without version and stream suffixes, as `--api` has them."""
    domains = [getattr(layout, name) for name in dir(layout) if name.startswith("API_")]
    return frozenset(
        _VERSION.sub("", name) for domain in domains for name in functions.names(domain).values()
    )


def parts(api: str) -> list[str]:
    """The patterns of a value of `--api`, which commas or blanks separate."""
    return api.replace(",", " ").split()


def unknown(api: str) -> list[str]:
    """Patterns of a value of `--api` that match no function; a word among patterns is one."""
    if api in WORDS or not api:
        return []
    return [
        p
        for p in parts(api)
        if not p.startswith(_UNLISTED) and not any(fnmatchcase(name, p) for name in known())
    ]


def near(pattern: str) -> list[str]:
    """Functions and words that a pattern may have meant."""
    lower = {name.lower(): name for name in (*sorted(known()), *WORDS)}
    found = get_close_matches(pattern.lower().strip("*?"), lower, n=3)
    return [lower[name] for name in found]
