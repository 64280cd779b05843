"""A comparison of two recordings for a terminal: the answer, the measures, then what changed most."""

from __future__ import annotations

import shutil
import textwrap
from typing import IO, TYPE_CHECKING

from warpsight.ui.render import tables, terminal

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.analysis.diff.compare import Difference

#: Lines of an answer that nobody asked to be longer.
LINES = 30
_COLORS = {"slower": "\033[31m", "faster": "\033[32m", "same": "", "untested": "\033[33m"}


def show(found: Difference, stream: IO[str], *, by: str | None = None, top: int | None = None) -> None:
    """Print a comparison: the headline and, without `by`, the measures and the largest changes; with it, that table."""
    color, plain = (_COLORS[found.verdict], "\033[0m") if terminal.colored(stream) else ("", "")
    width = min(max(shutil.get_terminal_size().columns, 40), 120)
    text = found.headline[:1].upper() + found.headline[1:]
    headline = textwrap.wrap(text, width, break_on_hyphens=False)
    stream.write("\n".join(f"{color}{line}{plain}" for line in headline) + "\n")
    if by is not None:
        tables.show(_plain(found.result.tables[by]), top=top, stream=stream)
        return
    stream.write("\n")
    tables.show(_plain(found.result.tables["summary"]).drop_columns(["p"]), stream=stream)
    left = LINES - len(headline) - 9
    by_role = any("shared" in note.values for note in found.result.findings)
    for name in ("role", "kernel") if by_role else ("kernel", "role"):
        if name in found.result.tables and left > 5:
            shown = found.result.tables[name]
            rows = top if top is not None else min(left - 4 if left < 12 else left * 2 // 3, len(shown))
            stream.write("\n")
            tables.show(_plain(shown).drop_columns(["p"]).slice(0, rows), title=f"by {name}", stream=stream)
            left -= rows + 4


def _plain(table: pa.Table) -> pa.Table:
    """Counts without needless digits."""
    import pyarrow.compute as pc

    for name in ("count_before", "count_after", "ratio"):
        if name in table.column_names:
            place = table.column_names.index(name)
            rounded = pc.round(table[name], 3 if name == "ratio" else 1)
            table = table.set_column(place, table.schema.field(place), rounded)
    return table
