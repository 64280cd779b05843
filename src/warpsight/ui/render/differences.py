"""A comparison for a terminal: the answer, the measures, the largest changes, and their place in the call tree."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

from warpsight.ui.render import numbers, tables, terminal

if TYPE_CHECKING:
    import pyarrow as pa

    from warpsight.analysis.diff.answer import Difference

#: Default maximum number of lines in an answer.
LINES = 30
_COLORS = {"slower": "\033[31m", "faster": "\033[32m", "changed": "\033[33m", "untested": "\033[33m"}
_LEAST_TREE = 4
_EMPTY = {"sequence": "The typical iterations of both sides run the same kernels in the same order."}


def show(found: Difference, stream: IO[str], *, by: str | None = None, top: int | None = None) -> None:
    """Print a comparison: the headline and, without `by`, the measures and the largest changes; with it, that table."""
    from warpsight.analysis.diff.tables import changed_nodes

    color, plain = (_COLORS.get(found.verdict, ""), "\033[0m") if terminal.colored(stream) else ("", "")
    width = min(max(shutil.get_terminal_size().columns, 40), 120)
    text = numbers.unbroken(numbers.capitalized(found.headline))
    lines = textwrap.wrap(text, width, break_on_hyphens=False)
    stream.write("\n".join(f"{color}{line}{plain}" for line in lines).replace("\u00a0", " ") + "\n")
    if by is not None:
        shown = found.result.tables[by]
        if not len(shown):
            stream.write(f"\n{_EMPTY.get(by, f'These runs have no {by} to compare.')}\n")
            return
        made = (
            _tree(shown.to_pylist())
            if by == "tree"
            else _changes(shown)
            if "verdict" in shown.column_names
            else shown
        )
        tables.show(made, top=top, stream=stream)
        return
    stream.write("\n")
    summary = _changes(found.result.tables["summary"])
    tables.show(summary, stream=stream)
    left = LINES - len(lines) - len(summary) - 2
    name = "role" if found.by_role else "kernel"
    tree = changed_nodes(found.result.tables["tree"].to_pylist())
    if name in found.result.tables:
        rows = top if top is not None else max(left - 3 - min(len(tree) + 3, left // 2), 3)
        shown = _changes(found.result.tables[name].slice(0, rows))
        stream.write("\n")
        tables.show(shown, title=f"by {name}", stream=stream)
        left -= len(shown) + 3
    rows = top if top is not None else left - 3
    if len(tree) >= _LEAST_TREE and rows >= _LEAST_TREE:
        stream.write("\n")
        tables.show(_tree(tree[:rows]), title="where in the program", stream=stream)


def _changes(found: pa.Table) -> pa.Table:
    """Rows with changes in percent, with intervals; columns without content are left out."""
    return _table(found.column("name").to_pylist(), found.to_pylist())


def _table(names: Sequence[str], rows: Sequence[dict[str, Any]]) -> pa.Table:
    import pyarrow as pa

    time = {"unit": "ns"}
    columns: list[tuple[Any, Any]] = [
        (pa.field("name", pa.string()), list(names)),
        (pa.field("before", pa.float64(), metadata=time), [row["before"] for row in rows]),
        (pa.field("after", pa.float64(), metadata=time), [row["after"] for row in rows]),
        (pa.field("change", pa.string()), [_percent(row["ratio"], row["low"], row["high"]) for row in rows]),
        (pa.field("beside the rest", pa.string()),
         [_percent(row["beside"], row["beside_low"], row["beside_high"]) for row in rows]),
        (pa.field("launches", pa.string()), [_counts(row["count_before"], row["count_after"]) for row in rows]),
        (pa.field("verdict", pa.string()), [row["verdict"] for row in rows]),
    ]  # fmt: skip
    kept = [(field, values) for field, values in columns if field.type != pa.string() or any(values)]
    return pa.table(
        [pa.array(values, field.type) for field, values in kept], schema=pa.schema([f for f, _ in kept])
    )


def _percent(ratio: float | None, low: float | None, high: float | None) -> str:
    """`+5.1% (+3.9 to +6.2)`."""
    if ratio is None:
        return ""
    text = f"{_signed(ratio)}%"
    return text if low is None or high is None else f"{text} ({_signed(low)} to {_signed(high)})"


def _signed(ratio: float) -> str:
    value = round((ratio - 1) * 100, 1)
    return f"{'+' if value > 0 else '−' if value < 0 else ''}{abs(value):,.{0 if abs(value) >= 100 else 1}f}"


def _counts(before: float, after: float) -> str:
    """Launches per iteration, listed for both sides if they differ."""
    one, two = (f"{round(count, 1):,g}" for count in (before, after))
    return one if one == two else f"{one} → {two}"


def _tree(nodes: Sequence[dict[str, Any]]) -> pa.Table:
    """Nodes as an outline; a frame whose only content is one child shares a line with it."""
    children: dict[int, int] = {}
    for node in nodes:
        children[node["parent"]] = children.get(node["parent"], 0) + 1
    names, rows, depth, chain = [], [], dict[int, int](), list[str]()
    for place, node in enumerate(nodes):
        following = nodes[place + 1] if place + 1 < len(nodes) else None
        level = depth.get(node["parent"], 0)
        name = f"{node['name']} [{node['match']}]" if node["match"] in ("added", "removed") else node["name"]
        only = following is not None and following["parent"] == node["node"] and children[node["node"]] == 1
        if only and following is not None and _equal(node, following):
            depth[node["node"]] = level
            chain.append(name)
            continue
        names.append("  " * level + _joined([*chain, name]))
        rows.append(node)
        depth[node["node"]] = level + 1
        chain.clear()
    return _table(names, rows)


def _equal(one: dict[str, Any], two: dict[str, Any]) -> bool:
    return all(abs(one[side] - two[side]) <= 0.001 * max(one[side], 1.0) for side in ("before", "after"))


def _joined(names: Sequence[str]) -> str:
    """A chain of frames on one line: the last three."""
    shown = [name for name in names if name != "all"] or list(names)
    return ("… › " if len(shown) > 3 else "") + " › ".join(shown[-3:])
