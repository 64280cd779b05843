"""Families of allocators: any function of a family frees the others' allocations, so addresses pair within a family.

Recorders and readers write the family's name (`CUDA`, `OpenCL`, `HIP`, a framework's or the program's own). Older traces have the
function's name instead.
"""

from __future__ import annotations

import re

#: Family → pattern of the functions' names that older traces have; any other allocator is a family of its own.
_FUNCTIONS = {
    "CUDA": r"(CUDA (runtime|driver))|(cuda|cu)[A-Z]\w*",
    "OpenCL": r"cl[A-Z]\w*",
    "HIP": r"hip[A-Z]\w*",
}
#: SQL: the family that a row of table memory belongs to; a row without an allocator is a report's, of CUDA.
FAMILY = (
    "CASE WHEN allocator IS NULL THEN 'CUDA' "
    + " ".join(
        f"WHEN allocator SIMILAR TO '{pattern}' THEN '{family}'" for family, pattern in _FUNCTIONS.items()
    )
    + " ELSE allocator END"
)


def family(allocator: str | None) -> str:
    """The family of an allocator's name, as :data:`FAMILY` defines it."""
    if allocator is None:
        return "CUDA"
    return next((one for one, pattern in _FUNCTIONS.items() if re.fullmatch(pattern, allocator)), allocator)


def changes(where: str = "true") -> str:
    """SQL that gives allocations and frees, paired by address within process and family.

    The rows are those of table memory that `where` selects; `allocator` is the family, and a free has the device of its
    allocation. Columns beside those of the table: `before` and `after`, the operations before and after it on the same address,
    and `change`, the bytes by which memory in use grows. A free subtracts what its allocation added, and so does an allocation at
    the address of one whose free is missing. A free without an allocation changes nothing.
    """
    return f"""
    SELECT *, CASE WHEN operation = 'allocate' THEN
                     coalesce(bytes, 0) - CASE WHEN before = 'allocate' THEN coalesce(allocated, 0) ELSE 0 END
                   WHEN before = 'allocate' THEN -coalesce(allocated, bytes, 0) ELSE 0 END AS change
    FROM (SELECT * REPLACE (CASE WHEN operation = 'free' AND lag(operation) OVER w = 'allocate' THEN lag(device) OVER w
                                 ELSE device END AS device),
            lag(bytes) OVER w AS allocated, lag(operation) OVER w AS before, lead(operation) OVER w AS after
          FROM (SELECT * REPLACE ({FAMILY} AS allocator) FROM memory WHERE operation IN ('allocate', 'free') AND {where})
          WINDOW w AS (PARTITION BY process, allocator, address ORDER BY time))"""
