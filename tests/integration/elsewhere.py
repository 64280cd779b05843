"""Runs verbs as on a system that is not POSIX: `elsewhere.py` with a JSON list of argument lists on standard input.

What macOS and Windows lack between them is taken away before warpsight is imported: modules, functions, constants and
the compiled recorder. Libraries keep what they have, because there they have their own parts for those systems.
Prints a JSON list of [exit code, standard output, standard error], one for each argument list.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import traceback

MODULES = (
    "fcntl",
    "resource",
    "pwd",
    "grp",
    "termios",
    "tty",
    "pty",
    "posix",
    "syslog",
    "curses",
    "readline",
)
OF_OS = """
    O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK WNOHANG chown eventfd fchmod fchown fork forkpty
    geteuid getgid getloadavg getpgid getpriority getuid killpg lchown memfd_create mkfifo nice
    openpty pidfd_open pipe2 posix_fadvise posix_fallocate posix_spawn pread preadv pwrite
    register_at_fork sched_getaffinity sched_setaffinity sched_yield sendfile setpriority setsid
    sysconf wait3 waitid getxattr process_cpu_count
"""
OF_SIGNAL = """
    SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGPROF SIGQUIT SIGSTOP SIGTSTP SIGUSR1
    SIGUSR2 SIGWINCH pthread_kill pthread_sigmask setitimer sigwait sigtimedwait
"""
LIBRARIES = """
    asyncio concurrent.futures ctypes.util duckdb fsspec http.server importlib.resources jinja2
    jsonschema mcp.server msgspec multiprocessing.pool numpy perfetto.trace_processor platform
    pyarrow.compute pyarrow.dataset pyarrow.parquet rich.console shutil socketserver sqlite3
    subprocess tarfile tempfile textual.app textual.drivers.linux_driver
    textual.drivers.headless_driver typer webbrowser xml.etree.ElementTree zstandard
"""


def take_away() -> None:
    """Import the libraries, then take the rest away from everything imported later."""
    for name in LIBRARIES.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for name in OF_OS.split():
        with contextlib.suppress(AttributeError):
            delattr(os, name)
    for name in OF_SIGNAL.split():
        with contextlib.suppress(AttributeError):
            delattr(signal, name)
    for name in dir(mmap):
        if name.startswith(("MAP_", "PROT_", "MADV_")):
            delattr(mmap, name)
    del socket.AF_UNIX
    # On Linux subprocess needs what was taken away, so no program can be started here.
    subprocess.Popen.__init__ = _no_program  # type: ignore[method-assign]
    sys.platform = "win32"
    os.environ["WARPSIGHT_LIBRARY"] = os.path.join(os.path.dirname(__file__), "no-such-library.so")


def _no_program(*_: object, **__: object) -> None:
    raise FileNotFoundError(errno.ENOENT, "no program can be started here")


def run(arguments: list[str]) -> tuple[int, str, str]:
    """One verb, in this process."""
    from warpsight.ui.cli import app

    out, error = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            code = app.main(arguments)
        except SystemExit as end:
            code = end.code
        except BaseException:
            code = 70
            error.write(traceback.format_exc())
    said, told = (stream.buffer.getvalue().decode() for stream in (out, error))
    return code if isinstance(code, int) else 0 if code is None else 1, said, told


def main() -> None:
    wanted = json.load(sys.stdin)
    take_away()
    json.dump([run(arguments) for arguments in wanted], sys.stdout)


if __name__ == "__main__":
    main()
