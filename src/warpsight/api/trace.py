"""`ws.open`: a trace, or any file that can be imported, as a :class:`Trace` whose methods are the reading verbs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from warpsight.api.writing import Writing
from warpsight.errors import WarpsightError

if TYPE_CHECKING:
    from warpsight.ui.render.report.serve import TraceServer


class Trace(Writing):
    """One recording, opened for reading; :func:`open` makes one.

    Its methods are the reading verbs with their options (`stats`, `analyze`, `query`, `flame`, `report`, `export`, …); they
    return the tables and findings that the verbs print. Beneath them are the tables themselves: `sql`, `table`, `arrow`. Threads
    may share it. Close it, or use it as a context manager, to free memory and, for packed, remote and foreign files, the private
    copy on disk.
    """

    def serve(self, *, browser: bool = False, perfetto: bool = False, port: int = 0) -> TraceServer:
        """Serve the report, and the Perfetto UI with the trace loaded, to this machine's browsers, as `warpsight open` does.

        The result has the addresses (`url`, `perfetto`), which hold a random token. Close it before the trace, or use it as a
        context manager; the process serves until then. Paths and arguments appear as recorded.

        Args:
            browser: Open the address in a browser.
            perfetto: Open the Perfetto UI's address instead of the report's.
            port: Port to listen on; a free one by default.

        Raises:
            WarpsightError: when the port is taken, or the Perfetto UI is requested but not installed.
        """
        from warpsight.model.selection import Rows
        from warpsight.ui.render.report import ReportOptions
        from warpsight.ui.render.report import serve as serving

        if perfetto and serving.perfetto_ui() is None:
            raise WarpsightError(serving.NO_PERFETTO)
        try:
            server = serving.TraceServer(self, Rows(), ReportOptions(include=("paths", "arguments")), port)
        except OSError as error:
            raise WarpsightError(f"cannot listen on port {port}: {error.strerror}") from None
        if browser:
            import webbrowser

            webbrowser.open(server.perfetto if perfetto and server.perfetto else server.url)
        return server


def open(path: str | os.PathLike[str]) -> Trace:
    """Open a trace (folder, packed file, fsspec URL) or another tool's file, which is read into a private temporary folder.

    Raises:
        TraceError: when the trace does not exist, is damaged, or has a schema that this version cannot read.
        FormatError: when it is neither a trace nor a file of a known format.
    """
    from warpsight.formats.importing import open_any

    return open_any(path, Trace)
