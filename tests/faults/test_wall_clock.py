"""The wall clock is set, or the machine sleeps, while a program is recorded: a preloaded library moves both clocks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.recorded import TIMEOUT, record

#: Moves CLOCK_REALTIME and CLOCK_BOOTTIME by CLOCK_STEP seconds as soon as the file CLOCK_FILE exists.
SHIM = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec* at) {
  int result = syscall(SYS_clock_gettime, id, at);
  const char* file = getenv("CLOCK_FILE");
  if ((id == CLOCK_REALTIME || id == CLOCK_BOOTTIME) && file && access(file, F_OK) == 0)
    at->tv_sec += atol(getenv("CLOCK_STEP"));
  return result;
}
"""
#: Says when it emitted its events, half of them after the clocks moved.
PROGRAM = """
import json, os, sys, time
import warpsight as ws
moments = []
def emit(half):
    for number in range(100):
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        ws.emit("event", kind="test", number=half * 100 + number)
        moments.append((before, time.clock_gettime_ns(time.CLOCK_MONOTONIC)))
emit(0)
open(os.environ["CLOCK_FILE"], "w").close()
emit(1)
json.dump(moments, open(sys.argv[1], "w"))
"""


@pytest.mark.parametrize("step", [-3600, -2, 2, 86_400])
def test_times_do_not_depend_on_the_wall_clock_and_the_trace_says_that_it_was_set(
    step: int, library: Path, tmp_path: Path
) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("the moved clock needs a C compiler")
    (tmp_path / "shim.c").write_text(SHIM)
    shim = tmp_path / "shim.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", shim, tmp_path / "shim.c"], check=True, timeout=TIMEOUT
    )
    done = record(library, tmp_path / "a.warp", [sys.executable, "-c", PROGRAM, str(tmp_path / "moments")], LD_PRELOAD=str(shim),
                  CLOCK_FILE=str(tmp_path / "set"), CLOCK_STEP=str(step))  # fmt: skip
    assert done.code == 0, done.err
    rows = done.sql(
        "SELECT start FROM user_event WHERE kind = 'test' ORDER BY CAST(attributes::JSON->>'number' AS INT)"
    )
    times = [row[0] for row in rows]
    moments = json.loads((tmp_path / "moments").read_text())
    assert len(times) == 200
    assert all(before <= time <= after for time, (before, after) in zip(times, moments, strict=True))
    told = done.sql("SELECT cause, severity FROM loss WHERE source = 'clock'")
    assert len(told) == 1 and told[0][1] == "note"
    assert f"{'forward' if step > 0 else 'back'} by {abs(step)}" in told[0][0].replace(",", "")
    clocks = json.loads((tmp_path / "a.warp" / "manifest.json").read_text())["clocks"]
    assert [round(by / 1e9) for _, by in clocks["steps"]] == [step]
    assert abs(clocks["drift"]) < 1000
