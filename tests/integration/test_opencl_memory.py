"""Memory of OpenCL programs that end as they should: nothing leaks, nothing is freed twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration import recorded
from tests.integration.opencl_recording import compile_program, require_pocl

#: Allocates and gives back buffers, an image and shared virtual memory; keeps as many buffers as its argument says.
PROGRAM = r"""
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#define CHECK(x) do { cl_int e_ = (x); if (e_) { printf("line %d: %d\n", __LINE__, e_); exit(2); } } while (0)
int main(int argc, char** argv) {
  cl_platform_id p; cl_device_id d; cl_int e;
  CHECK(clGetPlatformIDs(1, &p, 0)); CHECK(clGetDeviceIDs(p, CL_DEVICE_TYPE_ALL, 1, &d, 0));
  cl_context c = clCreateContext(0, 1, &d, 0, 0, &e); CHECK(e);
  cl_command_queue q = clCreateCommandQueue(c, d, 0, &e); CHECK(e);
  for (int i = 0; i < 20; i++) {
    cl_mem a = clCreateBuffer(c, CL_MEM_READ_WRITE, 4096, 0, &e); CHECK(e);
    cl_mem b = clCreateBufferWithProperties(c, 0, CL_MEM_READ_WRITE, 1024, 0, &e); CHECK(e);
    CHECK(clRetainMemObject(a));
    CHECK(clReleaseMemObject(b)); CHECK(clReleaseMemObject(a)); CHECK(clReleaseMemObject(a));
  }
  cl_image_format f = {CL_RGBA, CL_FLOAT};
  cl_image_desc dd = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 16, .image_height = 8};
  cl_mem image = clCreateImage(c, CL_MEM_READ_WRITE, &f, &dd, 0, &e); CHECK(e);
  void* svm = clSVMAlloc(c, CL_MEM_READ_WRITE, 2048, 0);
  void* later = clSVMAlloc(c, CL_MEM_READ_WRITE, 2048, 0);
  clSVMFree(c, svm);
  CHECK(clEnqueueSVMFree(q, 1, &later, 0, 0, 0, 0, 0)); CHECK(clFinish(q));
  CHECK(clReleaseMemObject(image));
  for (int i = 0; i < atoi(argv[1]); i++) { clCreateBuffer(c, CL_MEM_READ_WRITE, 512, 0, &e); CHECK(e); }
  return 0; }
"""


def asked(verb: str, path: Path, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "warpsight.ui.cli", verb, str(path), *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("kept", [0, 3])
def test_what_a_correct_program_releases_is_freed_once(library: Path, tmp_path: Path, kept: int) -> None:
    require_pocl()
    program = compile_program(PROGRAM, tmp_path)
    run = recorded.record(library, tmp_path / "run.warp", [str(program), str(kept)])
    assert run.code == 0, run.err
    assert run.sql("SELECT DISTINCT allocator FROM memory") == [("OpenCL",)]
    assert run.sql("SELECT operation, count(*) FROM memory GROUP BY 1 ORDER BY 1") == [
        ("allocate", 43 + kept), ("free", 43)
    ]  # fmt: skip
    tables = asked("analyze", run.path, "memory")["analyses"]["memory"]["tables"]
    (summary,) = tables["summary"]["rows"]
    assert (summary["device"], summary["allocator"]) == (0, "OpenCL")
    assert (summary["allocations"], summary["frees"]) == (43 + kept, 43)
    assert summary["at_end"] == 512 * kept
    assert sum(row["count"] for row in tables["leaks"]["rows"]) == kept
    assert tables["errors"]["rows"] == []
    (stats,) = asked("stats", run.path, "memory")["tables"]["memory"]["rows"]
    assert (stats["at_end"], stats["unknown_frees"]) == (512 * kept, 0)
