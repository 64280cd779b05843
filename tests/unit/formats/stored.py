"""SQL on a trace's own Parquet files: what was stored, without the views and joins that readers see."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def stored(path: Path, text: str) -> list[tuple[Any, ...]]:
    """Rows of a query; every table of the trace is a view."""
    import duckdb

    with duckdb.connect() as base:
        for folder in sorted(path.glob("table=*")):
            files = f"read_parquet('{folder}/**/*.parquet', hive_partitioning=false)"
            base.execute(f'create view "{folder.name[6:]}" as from {files}')
        return [tuple(row) for row in base.execute(text).fetchall()]
