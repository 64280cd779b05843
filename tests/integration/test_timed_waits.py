"""Waits inside the traced process take as long as they should, whatever the wall clock says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.integration.recorded import TIMEOUT

NATIVE = Path(__file__).parents[2] / "native"
#: The wall clock shows two days ahead of what the kernel waits for: a deadline on it would be days away.
PROGRAM = """
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "runtime/timed_wait.h"
extern "C" int clock_gettime(clockid_t id, timespec* at) {
  const int result = static_cast<int>(syscall(SYS_clock_gettime, id, at));
  if (id == CLOCK_REALTIME) at->tv_sec += 172800;
  return result;
}
int main() {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  const bool free_one = warpsight::lock_within(&lock, 1);
  const bool taken_one = warpsight::lock_within(&lock, 1);
  warpsight::wait_within(&semaphore, 1);
  sem_post(&semaphore);
  warpsight::wait_within(&semaphore, 100000000);
  pthread_cond_t condition;
  warpsight::use_monotonic_clock(&condition);
  const timespec soon = warpsight::deadline_after(1);
  while (pthread_cond_timedwait(&condition, &lock, &soon) == 0) {
  }
  printf("%d %d\\n", free_one, taken_one);
}
"""


def test_waits_end_in_time_though_the_wall_clock_is_wrong(tmp_path: Path) -> None:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    (tmp_path / "main.cpp").write_text(PROGRAM)
    subprocess.run(
        [compiler, "-std=c++17", f"-I{NATIVE}", tmp_path / "main.cpp", NATIVE / "runtime" / "timed_wait.cpp", "-pthread", "-ldl",
         "-o", tmp_path / "main"],
        check=True, timeout=TIMEOUT,
    )  # fmt: skip
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert (done.returncode, done.stdout) == (0, "1 0\n")
