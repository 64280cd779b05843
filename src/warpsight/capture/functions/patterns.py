"""The values of `--api`: functions of every recorded API, and words for sets of them."""

from __future__ import annotations

import re
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache

from warpsight.capture import functions

#: Values of `--api` that name no function.
WORDS = ("default", "launches", "all", "off")
_VERSION = re.compile(r"(_v\d+|_pts[dz])+$")


@lru_cache(maxsize=1)
def known() -> frozenset[str]:
    """Names of all functions without version and stream suffixes, as spelled in `--api`."""
    return frozenset(
        _VERSION.sub("", name) for domain in functions.domains() for name in functions.names(domain).values()
    )


def parts(api: str) -> list[str]:
    """The patterns in a value of `--api`, separated by commas or spaces."""
    return api.replace(",", " ").split()


def unknown(api: str) -> list[str]:
    """Patterns in a value of `--api` that match no function; a word among patterns counts as a pattern."""
    if api in WORDS or not api:
        return []
    unlisted = tuple(prefix for one in functions.domains().values() for prefix in one.prefixes)
    return [
        p
        for p in parts(api)
        if not p.startswith(unlisted) and not any(fnmatchcase(name, p) for name in known())
    ]


def near(pattern: str) -> list[str]:
    """Functions and words that a pattern may have been meant to match."""
    lower = {name.lower(): name for name in (*sorted(known()), *WORDS)}
    found = get_close_matches(pattern.lower().strip("*?"), lower, n=3)
    return [lower[name] for name in found]
