"""Kernel names short enough to read, yet distinct.

A template whose first arguments are numbers (`elementwise_kernel<128, 4, …>`) is a general engine in one launch configuration:
the functor it was given comes after them. It counts as one kernel, `elementwise_kernel<128, 4>`, whatever the functor. A template
whose first arguments are types is a separate kernel for each of them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

_ENGINE = re.compile(r"^([^<]*)<((?:\(int\))?\d+(?:, ?(?:\(int\))?\d+)*)(?:[,>])")
#: What may follow a function's arguments.
_AFTER = re.compile(r"( const)?( \[[^]]*\])?$")
#: Placeholder for a name that the trace does not have.
UNNAMED = "?"
#: How the name of a graph begins that was recorded as a whole, instead of its kernels.
WHOLE_GRAPH = "CUDA graph"
#: Maximum length of a name in a sentence.
_LONGEST = 72
_NAMESPACES = re.compile(r"(?:\w+::|\(anonymous namespace\)::|<unnamed>::)+(?=[\w(<])")
_INNER = re.compile(r"<.*>", re.DOTALL)


@lru_cache(maxsize=65_536)
def family(name: str) -> str:
    """The kernel that a demangled name is an instance of, or the name itself."""
    found = _ENGINE.match(name)
    return f"{found[1].removeprefix('void ')}<{found[2]}>" if found else name


@lru_cache(maxsize=65_536)
def bare(name: str) -> str:
    """A demangled name without return type and parameters; template arguments stay.

    Only parentheses at the end of a name hold arguments, so a compiler's `f32[8]{0:T(128)}` has none.
    """
    text = name.removeprefix("void ")
    whole = _AFTER.sub("", text)
    place, inside = len(whole), 0
    while place and (inside or place == len(whole)):  # back to where the last parentheses begin
        place -= 1
        inside += (whole[place] == ")") - (whole[place] == "(")
    if (
        not whole.endswith(")")
        or place <= 0
        or whole[place - 1] == " "
        or whole.endswith("operator", 0, place)
    ):
        return text
    begin = 0
    for at, letter, depth in _nested(whole[:place]):
        if letter == " " and not depth and not whole.endswith("(anonymous", 0, at):
            begin = at + 1
    return whole[begin:place]


@lru_cache(maxsize=65_536)
def short(name: str, longest: int = _LONGEST) -> str:
    """A name for a sentence or a column: without arguments, and shortened to the available room."""
    text = ""
    for text in _ever_shorter(bare(name)):
        if len(text) <= longest:
            return text
    head = (longest - 1) * 4 // 5  # the start and end of an indivisible name distinguish it from others
    return f"{text[:head]}…{text[len(text) - (longest - 1 - head) :]}"


def apart(names: Iterable[str]) -> dict[str, str]:
    """The short form of each name. Names that would look alike show their start and the place where they differ."""
    shown = {name: short(name) for name in names}
    alike: dict[str, list[str]] = {}
    for name, text in shown.items():
        alike.setdefault(text, []).append(name)
    head = _LONGEST // 2
    for group in alike.values():
        if len(group) == 1:
            continue
        texts = {name: _template(bare(name))[0] for name in group}
        if len(set(texts.values())) < len(group):  # their template arguments distinguish them
            texts = {name: bare(name) for name in group}
        least, most = min(texts.values()), max(texts.values())
        same = (one == other for one, other in zip(least, most, strict=False))
        begin = max(sum(itertools.takewhile(bool, same)) - 3, head)
        for name, text in texts.items():
            rest = text[begin : begin + _LONGEST - head - 1]
            if begin + len(rest) < len(bare(name)):
                rest = f"{rest[: _LONGEST - head - 2]}…"
            shown[name] = f"{text[:head]}…{rest}"
    return shown


def _ever_shorter(text: str) -> Iterator[str]:
    """A bare name, then ever shorter forms of it.

    First the namespaces of template arguments, then what is inside of those, then outer namespaces, then the last arguments:

        a::b::f<c::D<int>, E, 4>   a::b::f<D<int>, E, 4>   a::b::f<D<…>, E, 4>   …::f<D<…>, E, 4>   …::f<D<…>, …>

    All arguments are left out only if the function's name is at least as long as the first of them.
    """
    yield text
    base, given, after = _template(text)
    given = [_NAMESPACES.sub("", one) for one in given]
    if given:
        yield f"{base}<{', '.join(given)}>{after}"
        given = [_INNER.sub("<…>", one) for one in given]
        after = f"<{', '.join(given)}>{after}"
        yield base + after
    *outer, base = base.split("::")
    for place in range(len(outer)):
        yield "::".join(["…", *outer[place + 1 :], base]) + after
    if outer:
        base = f"…::{base}"
    for count in range(len(given) - 1, 0, -1):
        yield f"{base}<{', '.join(given[:count])}, …>"
    if given and len(base) >= len(given[0]):
        yield f"{base}<…>"


def _template(text: str) -> tuple[str, list[str], str]:
    """A bare name's part before its template arguments, the arguments, and the part after them."""
    begin, given, at = text.find("<"), [], 0
    if begin <= 0:
        return text, [], ""
    for place, letter, depth in _nested(text):
        if depth == 1 and letter == "<":
            at = place + 1
        elif (depth == 1 and letter == ",") or (not depth and letter == ">"):
            given.append(text[at:place].strip())
            at = place + 1
            if letter == ">":
                return text[:begin], given, text[at:]
    return text, [], ""


def _nested(text: str) -> Iterator[tuple[int, str, int]]:
    """Place, letter and how many templates are open after it; an arrow closes none."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">" and text[place - 1 : place] != "-")
        yield place, letter, depth
