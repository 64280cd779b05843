"""The paths of a trace's parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def part_path(root: Path, table: str, process: int | None, part: int, piece: int = 0) -> Path:
    """Path of one part; definition tables have no process level. `piece` numbers the files of one write."""
    folder = root / f"table={table}"
    if process is not None:
        folder /= f"process={process}"
    return folder / (f"part-{part:06d}.parquet" if not piece else f"part-{part:06d}-{piece}.parquet")


def part_number(path: Path) -> int:
    """The round that wrote a part file."""
    return int(path.stem.split("-")[1])


def parts(root: Path, table: str) -> Iterator[Path]:
    """Every part of a table, in a stable order."""
    yield from sorted((root / f"table={table}").rglob("part-*.parquet"))
