"""A page in a headless Chromium, driven over the DevTools pipe: mouse, keys, size, colors; errors and requests are kept."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

#: Key name → what the DevTools protocol wants beside it.
KEYS = {
    "Enter": 13,
    "Escape": 27,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Tab": 9,
    "Home": 36,
}


class Chromium:
    """One browser with one page; a context manager."""

    def __init__(self, program: str, timeout_s: float = 60) -> None:
        self._profile = tempfile.mkdtemp(prefix="chromium-")
        self._timeout_s = timeout_s
        self._number = 0
        self._session = ""
        self._buffer = b""
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.blocked: list[str] = []
        self._ids: dict[str, str] = {}
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
                   "--disable-background-networking", "--disable-dev-shm-usage", "--hide-scrollbars",
                   f"--user-data-dir={self._profile}", "about:blank"]  # fmt: skip
        # The protocol is on descriptors 3 and 4.
        shell = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *command], pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.resize(1280, 900)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol."""
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
            self._note(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = os.read(self._read, 1 << 20)
            if not data:
                raise RuntimeError("the browser has gone")
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(line)

    def _note(self, event: dict[str, Any]) -> None:
        method, told = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(told["exceptionDetails"])[:2000])
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.errors.append(json.dumps(told["args"])[:2000])
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.errors.append(json.dumps(told["entry"])[:2000])
        elif method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
            self._ids[told["requestId"]] = told["request"]["url"]
        elif method == "Network.loadingFailed" and told.get("blockedReason") == "csp":
            self.blocked.append(self._ids.get(told["requestId"], ""))  # never left the browser

    def open(self, url: str, ready: str = "document.readyState === 'complete'") -> None:
        """Go to a page and wait for a condition."""
        self.errors.clear()
        self.requests.clear()
        self.call("Page.navigate", url=url)
        self.wait(f"location.href !== 'about:blank' && document.readyState === 'complete' && ({ready})")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Until a JavaScript condition holds."""
        deadline = time.monotonic() + self._timeout_s
        while not self.evaluate(f"Boolean({condition})"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the page did not reach: {condition}; errors: {self.errors}")
            time.sleep(0.05)

    def resize(self, width: int, height: int) -> None:
        """Set the size of the page in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.settle()

    def settle(self) -> None:
        """Let the page draw twice: observers of sizes run between frames."""
        self.evaluate(
            "new Promise(r => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(r)), 0))"
        )

    def colors(self, scheme: str) -> None:
        """What the system says about colors: light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.settle()

    def offline(self) -> None:
        """Cut the page off from every network."""
        self.call(
            "Network.emulateNetworkConditions",
            offline=True,
            latency=0,
            downloadThroughput=0,
            uploadThroughput=0,
        )

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """A mouse event at a place of the page: mouseMoved, mousePressed, mouseReleased, mouseWheel."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)
        self.settle()

    def hover(self, x: float, y: float) -> None:
        """Move the pointer."""
        self.mouse("mouseMoved", x, y)

    def click(self, x: float, y: float) -> None:
        """Press and release the left button."""
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def key(self, key: str) -> None:
        """Press and release a key."""
        code = KEYS.get(key, ord(key[0]))
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text)
        self.settle()

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)
        self.settle()

    def box(self, selector: str) -> dict[str, float]:
        """Left, top, width and height of an element, scrolled into view."""
        return self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'nearest', "
            "behavior: 'instant'}); const r = e.getBoundingClientRect(); "
            "return {x: r.x, y: r.y, width: r.width, height: r.height}; })()"
        )

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Save what the page shows as PNG, or the whole page."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole, **self._clip(whole))["data"]
        path.write_bytes(base64.b64decode(data))

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {
            "clip": {
                "x": 0,
                "y": 0,
                "width": size["width"],
                "height": min(size["height"], 16_000),
                "scale": 1,
            }
        }

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)
        shutil.rmtree(self._profile, ignore_errors=True)

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
