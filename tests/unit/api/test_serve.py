"""`Trace.serve`: the report for this machine's browsers, until it is closed."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
import webbrowser
from pathlib import Path

import pytest

import warpsight as ws
from warpsight.ui.render.report import serve as serving

SLOW = Path(__file__).parents[2] / "golden" / "planted_slow_step.warp.zip"


def test_the_report_is_served_until_it_is_closed() -> None:
    with ws.open(SLOW) as trace, trace.serve() as server:
        with urllib.request.urlopen(server.url) as answer:
            page = answer.read().decode()
        assert "The GPU is idle" in page
        assert f'href="{server.url}"' in server._repr_html_()
        url = server.url
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url)


def test_a_browser_opens_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    with ws.open(SLOW) as trace, trace.serve(browser=True) as server:
        assert opened == [server.url]


def test_a_port_that_is_taken_and_a_missing_ui_are_errors_with_their_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "perfetto_ui", lambda: None)
    with ws.open(SLOW) as trace, socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ws.WarpsightError, match=f"cannot listen on port {port}: Address already in use"):
            trace.serve(port=port)
        with pytest.raises(ws.WarpsightError, match=r"pip install .warpsight\[view\]"):
            trace.serve(perfetto=True)
