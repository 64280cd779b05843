"""Arrow's functions without `pyarrow.compute`: what reading a small file needs.

`import pyarrow.compute` writes a signature and a docstring for each of three hundred functions, which takes longer than reading a
file of half a megabyte. Methods of arrays (`take`, `fill_null`, `cast`, `filter`, `unique`) import it too. Modules used by every
import of a foreign file call the functions here; others use `pyarrow.compute` as usual.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

try:  # not public: the names that `pyarrow.compute` passes on
    from pyarrow._compute import CastOptions, MatchSubstringOptions, SortOptions, call_function
except ImportError:
    from pyarrow.compute import CastOptions, MatchSubstringOptions, SortOptions, call_function


def _function(name: str) -> Callable[..., pa.Array]:
    def call(*columns: object) -> pa.Array:
        return call_function(name, list(columns))

    return call


equal = _function("equal")
less = _function("less")
add = _function("add")
invert = _function("invert")
is_null = _function("is_null")
is_valid = _function("is_valid")
if_else = _function("if_else")
least = _function("min")
most = _function("max")
total = _function("sum")
take = _function("take")
keep = _function("filter")
distinct = _function("unique")
encoded = _function("dictionary_encode")


def fill_null(column: pa.Array | pa.ChunkedArray, value: object) -> pa.Array | pa.ChunkedArray:
    """A column with a value in place of nulls."""
    return call_function("coalesce", [column, pa.scalar(value, column.type)])


def cast(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """A column as another type.

    Raises:
        pyarrow.ArrowInvalid: for a value that the type cannot hold.
    """
    return column if column.type == kind else call_function("cast", [column], CastOptions.safe(kind))


def matched(texts: pa.Array, expression: str) -> pa.BooleanArray:
    """Which strings an RE2 expression matches, ignoring case."""
    return call_function(
        "match_substring_regex", [texts], MatchSubstringOptions(expression, ignore_case=True)
    )


def in_order(table: pa.Table, column: str) -> pa.Table:
    """A table sorted by one of its columns."""
    rows = call_function("sort_indices", [table], SortOptions(sort_keys=[(column, "ascending")]))
    return take(table, rows)
