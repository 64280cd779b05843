"""The trace model: every table and column, defined once. `docs/reference/tables.md` is generated from here."""

from __future__ import annotations

from warpsight.model.schema import definitions, device_work, host_work, instruction_work
from warpsight.model.schema.columns import Column, Table

#: Increase when a table or column changes its meaning; readers refuse newer versions.
SCHEMA_VERSION = 1

_GROUPS = (device_work, host_work, instruction_work, definitions)
TABLES: dict[str, Table] = {t.name: t for group in _GROUPS for t in group.TABLES}

#: Columns added to tables since schema 1 was first written, all nullable: in parts without them, they are null.
LATER: dict[str, tuple[str, ...]] = {**device_work.LATER, **definitions.LATER}

#: Columns that were narrower when schema 1 was first written: a part may hold them in either type.
WIDENED: dict[str, tuple[str, ...]] = {**device_work.WIDENED}

__all__ = ["LATER", "SCHEMA_VERSION", "TABLES", "WIDENED", "Column", "Table"]
