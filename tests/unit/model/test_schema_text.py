"""How the schema's tables are read from their text."""

from __future__ import annotations

from warpsight.model.schema.columns import table


def test_a_line_is_a_column_with_type_unit_and_meaning() -> None:
    found = table(
        "kernel",
        "One kernel",
        """
start     int64? ns  begin on the device
name_id   int32  -   kernel name (table name)
path      text?  -   where it is
""",
        "start",
    )
    columns = [(c.name, c.type, c.nullable, c.unit, c.meaning, c.free) for c in found.columns]
    assert columns == [
        ("start", "int64", True, "ns", "begin on the device", False),
        ("name_id", "int32", False, "", "kernel name (table name)", False),
        ("path", "string", True, "", "where it is", True),
    ]
    assert (found.name, found.sort, found.delta) == ("kernel", "start", ("start",))
