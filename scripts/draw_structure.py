"""Draw the packages of the code and who imports whom: draw_structure.py OUT.svg [COMMIT].

A package stands above all that it imports. Where two import each other, directly or through others, no order exists: they stand
side by side, and the imports between them are red. Imports are those in the text, also ones for type checkers only.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

_WIDTH, _TALL, _GAP, _ROW = 1060, 46, 16, 104
_FONT = "font-family='ui-sans-serif, system-ui, sans-serif'"


@dataclass
class Package:
    """A package: its Python files and lines."""

    files: int = 0
    lines: int = 0


def main(out: str, commit: str = "HEAD") -> None:
    """Read the files of a commit and write the picture."""
    packages: dict[str, Package] = {}
    imports: Counter[tuple[str, str]] = Counter()
    for path, text in _files(commit):
        name = _package(path.removeprefix("src/").removesuffix(".py").replace("/", "."))
        own = packages.setdefault(name, Package())
        own.files += 1
        own.lines += text.count("\n")
        for module in _imported(text):
            other = _package(module)
            if other != name:
                imports[name, other] += 1
    imports = Counter({pair: count for pair, count in imports.items() if pair[1] in packages})
    Path(out).write_text(_drawn(packages, imports), encoding="utf-8")


def _files(commit: str) -> Iterable[tuple[str, str]]:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout

    for path in git("ls-tree", "-r", "--name-only", commit, "src").splitlines():
        if path.endswith(".py"):
            yield path, git("show", f"{commit}:{path}")


def _package(module: str) -> str:
    """The package below warpsight, or below `ui`; modules beside these count as one, and so do plugins but CUTracer's."""
    first, *rest = module.split(".")
    if first != "warpsight":
        return "cutracer" if rest[0] == "cutracer" else "other plugins"
    if rest[0] == "ui":
        return ".".join(rest[:2]) if len(rest) > 2 else "warpsight"
    return rest[0] if len(rest) > 1 else "warpsight"


def _imported(text: str) -> Iterable[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (f"{name}.x" for name in names if name.startswith(("warpsight.", "warpsight_plugins")))


def _rows(packages: Iterable[str], imports: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """How far above the ground each package stands: one above the highest that it imports without being imported by it."""
    below = {name: {other for one, other in imports if one == name} for name in packages}
    reach = {name: set(others) for name, others in below.items()}
    for _ in reach:  # imports of imports, until nothing is added
        for others in reach.values():
            others.update(*(reach[other] for other in list(others)))
    rows = dict.fromkeys(below, 0)
    for _ in rows:
        for name, others in below.items():
            apart = [rows[other] + 1 for other in others if name not in reach[other]]
            mutual = [rows[other] for other in others if name in reach[other]]
            rows[name] = max([rows[name], *apart, *mutual])
    return rows


def _drawn(packages: Mapping[str, Package], imports: Mapping[tuple[str, str], int]) -> str:
    rows = _rows(packages, imports)
    highest = max(rows.values())
    places: dict[str, tuple[float, float, float]] = {}
    for row in range(highest + 1):
        names = sorted(
            (name for name in packages if rows[name] == row), key=lambda name: -packages[name].lines
        )
        widths = [max(104.0, packages[name].lines ** 0.5 * 1.6) for name in names]
        x = (_WIDTH - sum(widths) - _GAP * (len(names) - 1)) / 2
        for name, wide in zip(names, widths, strict=True):
            places[name] = (x, 24 + (highest - row) * _ROW, wide)
            x += wide + _GAP
    lines = [
        _arrow(places, pair, count, rows) for pair, count in sorted(imports.items(), key=lambda one: one[1])
    ]
    boxes = [_box(name, packages[name], *places[name]) for name in packages]
    tall = 48 + highest * _ROW + _TALL
    total = sum(one.lines for one in packages.values())
    text = f"{sum(one.files for one in packages.values()):,} files, {total:,} lines"
    return "\n".join([
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {tall}' role='img' aria-label='{text}'>",
        f"<rect width='{_WIDTH}' height='{tall}' rx='10' fill='#fbfcfd'/>", *lines, *boxes,
        f"<text x='{_WIDTH - 16}' y='{tall - 12}' text-anchor='end' font-size='12' fill='#5d6874' {_FONT}>{text}</text>",
        "</svg>", "",
    ])  # fmt: skip


def _box(name: str, one: Package, x: float, y: float, wide: float) -> str:
    middle = x + wide / 2
    return (
        f"<g><rect x='{x:.0f}' y='{y}' width='{wide:.0f}' height='{_TALL}' rx='7' fill='#ffffff' stroke='#2f6f9f'/>"
        f"<text x='{middle:.0f}' y='{y + 20}' text-anchor='middle' font-size='14' font-weight='600' fill='#17212b' {_FONT}>"
        f"{escape(name)}</text><text x='{middle:.0f}' y='{y + 37}' text-anchor='middle' font-size='11' fill='#5d6874' {_FONT}>"
        f"{one.files} · {one.lines:,}</text></g>"
    )


def _arrow(
    places: Mapping[str, tuple[float, float, float]],
    pair: tuple[str, str],
    count: int,
    rows: Mapping[str, int],
) -> str:
    (x, y, wide), (to_x, to_y, to_wide) = places[pair[0]], places[pair[1]]
    wrong = rows[pair[0]] <= rows[pair[1]]
    begin, end = x + wide / 2, to_x + to_wide / 2
    thick = min(0.6 + count**0.5 / 6, 4)
    color = "stroke='#c62f1f' stroke-opacity='.75'" if wrong else "stroke='#8aa0b4' stroke-opacity='.5'"
    if wrong and rows[pair[0]] == rows[pair[1]]:
        bend = y - 22 if begin < end else y + _TALL + 22
        edge = y if begin < end else y + _TALL
        path = f"M{begin:.0f} {edge}Q{(begin + end) / 2:.0f} {bend} {end:.0f} {edge}"
    else:
        bottom, top = y + _TALL, to_y
        path = f"M{begin:.0f} {bottom}C{begin:.0f} {bottom + 40} {end:.0f} {top - 40} {end:.0f} {top}"
    title = f"<title>{pair[0]} imports {pair[1]}: {count}</title>"
    return f"<path d='{path}' fill='none' {color} stroke-width='{thick:.1f}'>{title}</path>"


if __name__ == "__main__":
    main(*sys.argv[1:])
