"""A recording without a command: `python -m warpsight.recorder.serve`.

It serves `warpsight.record` inside a program and `record --print-env`. The first line of standard input is
`{"path", "settings", "force", "watch"}`; the answer is `{"socket", "folder"}` or `{"error", "exit_code"}`. Then
`{"do": "statistics"}` and `{"do": "finish"}` are answered, each by one line. When the input ends without a finish
(the program died), the recording ends by itself once no process is left; with `watch`, a process id, it ends with
that process instead.
"""

from __future__ import annotations

import json
import os
import select
import sys
from pathlib import Path
from typing import Any

from warpsight.errors import WarpsightError
from warpsight.recorder import join, ranks
from warpsight.recorder.options.settings import Settings
from warpsight.recorder.server import Server
from warpsight.recorder.summary import RecordingSummary

LATE_OPENCL = (
    "OpenCL was in use before the recording began, and its loader accepts no layer after that, so nothing of it is recorded. "
    "Begin before the program's first OpenCL call"
)


def main() -> int:
    """Serve one recording."""
    os.umask(0o077)
    request = json.loads(sys.stdin.readline() or "{}")
    try:
        path = ranks.own_partition(Path(request["path"]), os.environ)
        server = Server(path, Settings.from_json(request.get("settings", {})),
                        force=bool(request.get("force")), job=join.job_of(os.environ))  # fmt: skip
        server.start()
    except WarpsightError as error:
        _answer({"error": str(error), "exit_code": error.exit_code})
        return 1
    _answer({"socket": server.socket, "folder": str(server.folder)})
    if request.get("watch"):
        _close_output()  # the requester has gone and no longer reads
        _await_process(int(request["watch"]))
    else:
        finished = _serve(server)
        if finished:
            return _finish(server, request)
    server.wait_idle(server.settings.wait)
    return _finish(server, request)


def _serve(server: Server) -> bool:
    """Answer requests; True if asked to finish, False if the other side is gone."""
    for line in sys.stdin:
        action = json.loads(line).get("do")
        if action == "finish":
            return True
        if action == "opencl is late":
            server.note_loss("opencl", LATE_OPENCL, severity="loss", platform="none")
        _answer(
            {"statistics": server.statistics()}
            if action in ("statistics", "opencl is late")
            else {"error": f"unknown request {action!r}"}
        )
    return False


def _finish(server: Server, request: dict[str, Any]) -> int:
    try:
        summary = server.finish(command=list(request.get("command", [])))
    except WarpsightError as error:
        _answer({"error": str(error), "exit_code": error.exit_code})
        return 1
    _answer({"finished": described(summary)})
    return 0


def described(summary: RecordingSummary) -> dict[str, Any]:
    """A summary as JSON."""
    return {"path": str(summary.path), "duration": summary.duration, "processes": summary.processes,
            "rows": summary.rows, "loss": summary.losses, "overhead": summary.overhead,
            "bytes": summary.finished.get("bytes", 0)}  # fmt: skip


def _await_process(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([descriptor], [], [])
    os.close(descriptor)


def _close_output() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.close(null)


def _answer(content: dict[str, Any]) -> None:
    try:
        print(json.dumps(content), flush=True)
    except OSError:  # the program is gone; the trace is made all the same
        _close_output()


if __name__ == "__main__":
    sys.exit(main())
