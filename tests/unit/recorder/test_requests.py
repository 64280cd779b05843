"""Requests to a running recording that are none: each is answered, and costs the recording nothing."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

import pytest

from warpsight.recorder.requests import Requests


def _number(request: dict[str, Any]) -> dict[str, Any]:
    return {"pid": int(request.get("pid", 0))}


def _asked(text: str) -> bytes:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        Requests({"number": _number}).take(theirs, text)
        ours.settimeout(60)
        return ours.recv(4096)


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"do": []}', '{"do": "number", "pid": "x"}', '{"do": "number", "pid": 1e999}', '{"do": "number", "pid": NaN}',
     '{"do": "number", "pid": {}}', '{"a": ' + "[" * 4000, "\ud800"],
)  # fmt: skip
def test_what_is_no_request_is_answered_with_an_error(text: str) -> None:
    assert list(json.loads(_asked(text))) == ["error"]


def test_a_request_that_no_thread_can_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    assert _asked('{"do": "number"}').startswith(b"no ")
