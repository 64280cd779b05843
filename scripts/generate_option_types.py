"""Writes src/warpsight/recorder/options/types.py from the table of options: `python scripts/generate_option_types.py`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from warpsight.recorder.options import table as options  # noqa: E402
from warpsight.recorder.options.keywords import keyword_type  # noqa: E402
from warpsight.recorder.options.table import Option  # noqa: E402

TARGET = ROOT / "src/warpsight/recorder/options/types.py"
#: Types of stored values, and of keywords.
STORED = {options.CHOICE: "str", options.SWITCH: "bool", options.WHOLE: "int", options.NUMBER: "float", options.TEXT: "str",
          options.TEXTS: "tuple[str, ...]", options.PATH: "Path | None"}  # fmt: skip
HEAD = '''"""Types of the options of a recording, generated from options/table.py by scripts/generate_option_types.py."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict
'''


def text() -> str:
    """The whole module."""
    recording = options.of_scope(options.RECORDING)
    command = options.of_scope(options.COMMAND, options.VENDOR)
    parts = [
        HEAD,
        _values(
            "RecordingValues",
            "Options of a recording; the defaults are those of `warpsight record`.",
            recording,
        ),
        _values("CommandValues", "Options of `warpsight record` itself, and of vendors' recorders.", command),
        _keywords("RecordingOptions", "Keyword arguments of `ws.record`.", "TypedDict", recording),
        _keywords(
            "RunOptions",
            "Keyword arguments of `ws.run`.",
            "RecordingOptions",
            options.of_scope(options.VENDOR),
        ),
    ]
    return "\n\n".join(parts)


def _values(name: str, about: str, rows: Iterable[Option]) -> str:
    lines = ["@dataclass(frozen=True)", f"class {name}:", f'    """{about}"""', ""]
    lines += [f"    {row.name}: {STORED[row.type]} = {_literal(row.default)}" for row in rows]
    return "\n".join(lines) + "\n"


def _keywords(name: str, about: str, base: str, rows: Iterable[Option]) -> str:
    lines = [f"class {name}({base}, total=False):", f'    """{about}"""', ""]
    lines += [f"    {row.name}: {keyword_type(row)}" for row in rows]
    return "\n".join(lines) + "\n"


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
