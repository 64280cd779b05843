"""Kernel names as people distinguish kernels.

A template whose first arguments are numbers (`elementwise_kernel<128, 4, …>`) is a general engine in one launch configuration:
the functor it was given comes after them. It is one kernel, `elementwise_kernel<128, 4>`, whatever functor that is. A template
that begins with types is a kernel of its own for each of them.
"""

from __future__ import annotations

import re
from functools import lru_cache

_ENGINE = re.compile(r"^([^<]*)<((?:\(int\))?\d+(?:, ?(?:\(int\))?\d+)*)(?:[,>])")
_ANONYMOUS = "(anonymous namespace)"
#: Stands for a name that the trace does not have.
UNNAMED = "?"
#: Longest name in a sentence.
_LONGEST = 100


@lru_cache(maxsize=65_536)
def family(name: str) -> str:
    """The kernel that a demangled name is an instance of, or the name itself."""
    found = _ENGINE.match(name)
    return f"{found[1].removeprefix('void ')}<{found[2]}>" if found else name


@lru_cache(maxsize=65_536)
def short(name: str) -> str:
    """A name for a sentence: without return type and arguments, with template arguments only if nothing else is left."""
    text, depth = name.removeprefix("void "), 0
    for place, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">" and text[place - 1 : place] != "-")
        if letter == "(" and not depth and not text.startswith(_ANONYMOUS, place):
            text = text[:place]
            break
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
