"""`warpsight open` where there is no browser."""

from __future__ import annotations

import webbrowser

import pytest

from warpsight.ui.cli.read import open as opening


def test_without_a_browser_the_way_to_the_address_from_another_machine_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    opening._browse("http://127.0.0.1:4711/token/", 4711)
    assert "on another machine after: ssh -L 4711:127.0.0.1:4711 " in capsys.readouterr().err
    monkeypatch.setattr(webbrowser, "open", lambda url: True)
    opening._browse("http://127.0.0.1:4711/token/", 4711)
    assert capsys.readouterr().err == ""
