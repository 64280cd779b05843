"""Requests of other processes to a running recording, over its socket: one JSON object each way."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from typing import Any

from warpsight.errors import WarpsightError
from warpsight.recorder.drain import listener

#: Threads of the process, beyond which requests are refused.
_MOST_THREADS = 64
Answer = Callable[[dict[str, Any]], dict[str, Any]]


class Requests:
    """Answers requests, each in a thread, because writing a trace may take seconds."""

    def __init__(self, answers: dict[str, Answer]) -> None:
        """`answers` maps each allowed `do` to its function."""
        self._answers = answers

    def take(self, connection: socket.socket, text: str) -> None:
        """Answer one request and close its connection."""
        try:
            if threading.active_count() > _MOST_THREADS:
                raise RuntimeError("too many requests at once")
            threading.Thread(target=self._serve, args=(connection, text), name="request", daemon=True).start()
        except RuntimeError as error:  # also where no thread can be started
            listener.answer(connection, f"no {error}")
            connection.close()

    def _serve(self, connection: socket.socket, text: str) -> None:
        with connection:
            connection.setblocking(True)
            connection.settimeout(5)
            listener.answer(connection, json.dumps(self._answer(text)))

    def _answer(self, text: str) -> dict[str, Any]:
        try:
            request = json.loads(text)
            action = self._answers.get(str(request.get("do")))
            if action is None:
                return {"error": f"this recording does not know {request.get('do')!r}"}
            return action(request)
        except (WarpsightError, OSError) as error:
            return {"error": str(error)}
        except (ArithmeticError, AttributeError, RecursionError, TypeError, ValueError) as error:
            return {"error": f"not a request: {error}"}
