"""The trace model: schema, reading (:func:`open`), writing (:class:`TraceWriter`), packing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import PathLike

    from warpsight.model.storage.writer import TraceWriter as TraceWriter
    from warpsight.model.trace import StoredTrace as StoredTrace

__all__ = ["StoredTrace", "TraceWriter", "open"]


def open(path: str | PathLike[str]) -> StoredTrace:
    """Open a trace: a folder, a packed file, or an fsspec URL of either (`s3://bucket/run.warp`).

    Packed and remote traces are copied to a private temporary folder that is removed when the trace is closed.

    Raises:
        TraceError: when the trace does not exist, is damaged, or has a schema that this version cannot read.
    """
    from warpsight.model.storage.places import locate
    from warpsight.model.trace import StoredTrace

    return locate(path, StoredTrace)


def __getattr__(name: str) -> object:
    # Loaded on first use: importing warpsight.model must not cost DuckDB and Arrow.
    if name == "StoredTrace":
        from warpsight.model.trace import StoredTrace

        return StoredTrace
    if name == "TraceWriter":
        from warpsight.model.storage.writer import TraceWriter

        return TraceWriter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
