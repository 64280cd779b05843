"""Probes shipped with warpsight, each a file that users may copy and change."""

from __future__ import annotations

import ast
from pathlib import Path

_HERE = Path(__file__).parent


def listed() -> dict[str, str]:
    """Name and first sentence of each built-in probe."""
    found = {}
    for path in sorted(_HERE.glob("[a-z]*.py")):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        found[path.stem.replace("_", "-")] = text.partition("\n")[0]
    return found


def find(name: str) -> Path | None:
    """The file of a built-in probe, or None."""
    return _HERE / f"{name.replace('-', '_')}.py" if name in listed() else None
