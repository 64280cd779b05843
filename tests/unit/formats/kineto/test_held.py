"""Tables that are held until the end of a file come back as they were added, in memory or not."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from warpsight.formats.kineto import held


@pytest.mark.parametrize("most", [1 << 30, 100, 0])
def test_rows_come_back_in_the_order_in_which_they_were_added(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "MEMORY_BYTES", most)
    tables = held.HeldTables()
    for number in range(5):
        tables.add("kernel", pa.table({"start": [10 * number, 10 * number + 1]}))
        tables.add("copy", pa.table({"bytes": [number]}))
    for _ in range(2):
        assert pa.concat_tables(tables.tables("kernel"))["start"].to_pylist() == [
            10 * number + more for number in range(5) for more in (0, 1)
        ]
    assert pa.concat_tables(tables.tables("copy"))["bytes"].to_pylist() == [0, 1, 2, 3, 4]
    assert list(tables.tables("memset")) == []
    tables.close()


def test_the_files_are_gone_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "MEMORY_BYTES", 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tables = held.HeldTables()
    for number in range(2):
        tables.add("kernel", pa.table({"start": [number]}))
    assert len(list(tmp_path.iterdir())) == 1
    tables.close()
    assert not list(tmp_path.iterdir())
