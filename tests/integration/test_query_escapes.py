"""SQL that leaves the trace, fails as it runs, or does not end: one line says so, and Ctrl-C ends it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from warpsight.ui.cli import parser
from warpsight.ui.mcp.places import Places
from warpsight.ui.mcp.server import with_errors
from warpsight.ui.mcp.tools import Tools

TRACE = Path(__file__).parents[1] / "golden" / "planted_leak.warp.zip"
DENIED = (
    "FROM duckdb_secrets()", "FROM which_secret('s3://x', 's3')", "FROM sniff_csv('/etc/passwd')",
    "FROM read_csv('/etc/passwd')",
    "FROM read_text('/etc/passwd')", "FROM read_blob('/etc/passwd')", "FROM glob('/etc/*')",
    "FROM parquet_metadata('/etc/passwd')",
    "FROM query('FROM read_text(''/etc/passwd'')')", "FROM '/etc/passwd'", "FROM enable_logging()",
    "FROM force_checkpoint()",
    "SELECT getenv('HOME')", "COPY kernel TO '/tmp/x'", "ATTACH '/tmp/x'", "INSTALL httpfs", "SET threads = 1",
)  # fmt: skip
FAILING = (
    "SELECT error('boo')", "SELECT CAST('x' AS INT)", "SELECT repeat('x', 10000000000)", "SELECT DATE '9999999-1-1'",
    "SELECT '\udcff'", "SELECT TIMESTAMP 'infinity'", "FROM test_all_types()", "SELECT error(name) FROM kernel",
)  # fmt: skip
ENDLESS = "SELECT count(*) FROM range(100000000000) a, range(1000000) b"


@pytest.mark.parametrize("sql", [*DENIED, *FAILING])
@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_what_may_not_or_cannot_run_is_one_message(
    sql: str, form: str, capfd: pytest.CaptureFixture[str]
) -> None:
    code = parser.run(["query", str(TRACE), sql, "--format", form])
    out, err = capfd.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("warpsight: ") and "internal error" not in err
    assert "root:" not in err


@pytest.mark.parametrize("sql", [*DENIED, *FAILING])
def test_agents_are_told_the_same(sql: str) -> None:
    with pytest.raises(LookupError) as error:
        with_errors(Tools(Places([TRACE.parent])).query, LookupError)(TRACE.name, sql)
    assert "internal error" not in str(error.value)


def test_a_sum_of_39_digits_is_a_float(capfd: pytest.CaptureFixture[str]) -> None:
    assert (
        parser.run(
            ["query", str(TRACE), "SELECT 170141183460469231731687303715884105727::HUGEINT AS n", "--json"]
        )
        == 0
    )
    assert json.loads(capfd.readouterr().out)["rows"] == [{"n": pytest.approx(1.7014118346046923e38)}]


@pytest.mark.parametrize("sql", [ENDLESS, f"EXPLAIN ANALYZE {ENDLESS}", f"SELECT * FROM ({ENDLESS}) LIMIT 1"])
def test_ctrl_c_ends_a_statement_that_would_run_for_years(sql: str) -> None:
    running = "import threading, sys\nfrom warpsight.model.trace import StoredTrace\n" \
        "plain = StoredTrace.sql\n" \
        "def told(self, *a, **k):\n    print('asked', file=sys.stderr, flush=True)\n    return plain(self, *a, **k)\n" \
        "StoredTrace.sql = told\nfrom warpsight.ui.cli import app\nsys.exit(app.main(sys.argv[1:]))\n"  # fmt: skip
    program = subprocess.Popen(
        [sys.executable, "-c", running, "query", str(TRACE), sql],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert program.stderr is not None
        assert program.stderr.readline() == "asked\n"  # before it runs, or while: both must end
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=60)
    finally:
        program.kill()
    assert (program.returncode, out, err) == (130, "", "")
