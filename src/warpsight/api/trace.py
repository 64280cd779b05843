"""`ws.open`: a trace, or any file that can be imported, as a :class:`Trace` whose methods are the reading verbs."""

from __future__ import annotations

import os

from warpsight.api.writing import Writing


class Trace(Writing):
    """One recording, opened for reading; :func:`open` makes one.

    Its methods are the reading verbs with their options (`stats`, `analyze`, `query`, `flame`, `report`, `export`, …) and
    answer with the tables and findings that the verbs print. Beneath them are the tables themselves: `sql`, `table`,
    `arrow`. Threads may share it. Close it, or use it as a context manager, to free memory and, for packed, remote and
    foreign files, the private copy on disk.
    """


def open(path: str | os.PathLike[str]) -> Trace:
    """Open a trace (folder, packed file, fsspec URL) or another tool's file, which is read into a private temporary folder.

    Raises:
        TraceError: when there is nothing, or the trace is damaged, or of a schema that this version does not read.
        FormatError: when it is neither a trace nor a file of a known format.
    """
    from warpsight.formats.importing import open_any

    return open_any(path, Trace)
