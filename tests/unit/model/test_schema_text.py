"""How the schema's tables are read from their text."""

from __future__ import annotations

from warpsight.model.schema.columns import tables


def test_a_line_is_a_column_with_type_unit_and_meaning() -> None:
    kernel, name = tables(
        """
kernel[start] One kernel
  start     int64? ns  begin on the device
  name_id   int32  -   kernel name (table name)
  @where
  path      text?  -   where it is

name A name
  id        int32  -   its number
""",
        where="device int16? - device id\nprocess int32 - process id\n",
    )
    columns = [(c.name, c.type, c.nullable, c.unit, c.meaning, c.free) for c in kernel.columns]
    assert columns == [
        ("start", "int64", True, "ns", "begin on the device", False),
        ("name_id", "int32", False, "", "kernel name (table name)", False),
        ("device", "int16", True, "", "device id", False),
        ("process", "int32", False, "", "process id", False),
        ("path", "string", True, "", "where it is", True),
    ]
    assert (kernel.name, kernel.meaning, kernel.sort, kernel.delta) == (
        "kernel",
        "One kernel",
        "start",
        ("start",),
    )
    assert (name.name, name.meaning, name.sort) == ("name", "A name", None)
