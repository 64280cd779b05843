"""The agent skill that comes with warpsight, and its installation."""

from __future__ import annotations

import os
from pathlib import Path

from warpsight.errors import WarpsightError

NAME = "SKILL.md"


def text() -> str:
    """The skill, as Markdown with front matter."""
    return Path(__file__).with_name(NAME).read_text(encoding="utf-8")


def install(folder: Path, *, force: bool = False) -> tuple[Path, bool]:
    """Put the skill into `folder`/warpsight/SKILL.md; returns the path and whether anything was written.

    Repeating it changes nothing. Only the skill's own file is touched, and one that differs is replaced only with `force`.

    Raises:
        WarpsightError: when a different file or a link exists at that path.
    """
    target = folder / "warpsight" / NAME
    if target.is_symlink() or target.parent.is_symlink():
        raise WarpsightError(f"{target} is reached through a link; it is left alone")
    if target.exists():
        if target.read_text(encoding="utf-8", errors="replace") == text():
            return target, False
        if not force:
            raise WarpsightError(f"{target} differs from this version's skill; -f replaces it")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{NAME}.{os.getpid()}")
    temporary.write_text(text(), encoding="utf-8")
    temporary.replace(target)
    return target, True
