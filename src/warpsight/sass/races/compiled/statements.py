"""Statements of PTX, each with its place in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"[^\"\n]*\"", re.DOTALL)
_LABEL = re.compile(r"\s*([A-Za-z_$%][\w$]*)\s*:(?!:)")
_GUARDED = re.compile(r"@(!?)\s*([%\w$]+)\s*(.*)", re.DOTALL)
#: Directives that end with their line.
_LINES = (".loc", ".version", ".target", ".address_size", ".file")


@dataclass(frozen=True)
class PtxStatement:
    """One statement.

    Attributes:
        kind: `open`, `close`, `label`, `directive`, `function` (up to its opening brace) or `instruction`.
        begin, end: its place in the text.
        text: without comments; of a label its name, of an instruction without its guard.
        guard: the predicate that it runs under, as `%p1` or `!%p1`; empty for none.
    """

    kind: str
    begin: int
    end: int
    text: str
    guard: str = ""

    @property
    def operation(self) -> str:
        """Name of the instruction with its modifiers, as in `ld.global.u32`."""
        return self.text.split(None, 1)[0] if self.text else ""

    @property
    def arguments(self) -> str:
        """What follows the operation."""
        return self.text.partition(" ")[2].strip()


def without_comments(text: str) -> str:
    """The text with comments blanked, so that all places stay as they are."""
    blank = re.compile(r"[^\n]")
    return _COMMENT.sub(
        lambda found: found[0] if found[0].startswith('"') else blank.sub(" ", found[0]), text
    )


def statements(text: str) -> Iterator[PtxStatement]:
    """The statements of a module in their order.

    Args:
        text: of the module, from :func:`without_comments`.
    """
    at, count = 0, len(text)
    while at < count:
        if text[at].isspace():
            at += 1
            continue
        if text[at] in "{}":
            yield PtxStatement("open" if text[at] == "{" else "close", at, at + 1, text[at])
            at += 1
            continue
        label = _LABEL.match(text, at)
        if label:
            yield PtxStatement("label", at, label.end(), label[1])
            at = label.end()
            continue
        if text.startswith(_LINES, at):
            end = text.find("\n", at)
            end = count if end < 0 else end
            yield PtxStatement("directive", at, end, " ".join(text[at:end].split()))
            at = end
            continue
        end, kind = _end(text, at)
        words = " ".join(text[at:end].rstrip(";").split())
        guard = _GUARDED.fullmatch(words)
        if kind == "function":
            yield PtxStatement(kind, at, end, words)
        elif guard:
            yield PtxStatement("instruction", at, end, guard[3], guard[1] + guard[2])
        else:
            yield PtxStatement("directive" if words.startswith(".") else "instruction", at, end, words)
        at = end


def _end(text: str, at: int) -> tuple[int, str]:
    """Where a statement that begins here ends, and whether it opens a function's body (which it leaves out)."""
    depth = 0
    function = re.compile(r"(?:\.\w+\s+)*?\.(?:entry|func)\b").match(text, at) is not None
    section = text.startswith(".section", at)
    quoted = False
    for place in range(at, len(text)):
        character = text[place]
        if character == '"':
            quoted = not quoted
        if quoted:
            continue
        if character == ";" and depth == 0:
            return place + 1, "statement"
        if character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif character == "{":
            if depth == 0 and function:
                return place, "function"
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0 and section:
                return place + 1, "statement"
    return len(text), "statement"
