"""The trace model: every table and column, defined once. `docs/reference/tables.md` is generated from here."""

from __future__ import annotations

from warpsight.trace.schema import definitions, device_work, host_work
from warpsight.trace.schema.columns import Column, Table

#: Goes up when a table or column changes meaning; readers refuse newer ones.
SCHEMA_VERSION = 1

TABLES: dict[str, Table] = {t.name: t for t in (*device_work.TABLES, *host_work.TABLES, *definitions.TABLES)}

__all__ = ["SCHEMA_VERSION", "TABLES", "Column", "Table"]
