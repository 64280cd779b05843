"""Every kind of command a C program enqueues arrives in the recording, and the program notices nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.integration.opencl_recording import Recorded, compile_program, record, require_pocl

PRELUDE = r"""
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define CHECK(x) do { cl_int e_ = (x); if (e_) { printf("line %d: %d\n", __LINE__, e_); exit(2); } } while (0)
static cl_context context; static cl_device_id device;
static cl_command_queue queue; static cl_program program;
static const char* source =
  "__kernel void vadd(__global float* a, float b) { size_t i = get_global_id(0); a[i] += b; }\n"
  "__kernel __attribute__((reqd_work_group_size(8,1,1))) void fixed8(__global float* a)\n"
  "{ a[get_global_id(0)] *= 2; }\n"
  "__kernel void scratch(__global float* a, __local float* s) { s[get_local_id(0)] = 1; a[0] = s[0]; }\n";
static void setup(cl_command_queue_properties p) {
  cl_platform_id platform; cl_int e;
  CHECK(clGetPlatformIDs(1, &platform, 0));
  CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, 0));
  context = clCreateContext(0, 1, &device, 0, 0, &e); CHECK(e);
  cl_queue_properties list[] = {CL_QUEUE_PROPERTIES, p, 0};
  queue = clCreateCommandQueueWithProperties(context, device, p ? list : 0, &e); CHECK(e);
  program = clCreateProgramWithSource(context, 1, &source, 0, &e); CHECK(e);
  CHECK(clBuildProgram(program, 1, &device, "-DX=1", 0, 0));
}
"""

COMMANDS = (
    PRELUDE
    + r"""
int main(void) {
  setup(0); cl_int e; float host[1024] = {0}; float pattern = 3;
  cl_mem a = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, 0, &e); CHECK(e);
  cl_mem b = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, 0, &e); CHECK(e);
  CHECK(clEnqueueWriteBuffer(queue, a, CL_TRUE, 0, 4096, host, 0, 0, 0));
  CHECK(clEnqueueFillBuffer(queue, a, &pattern, 4, 0, 2048, 0, 0, 0));
  CHECK(clEnqueueCopyBuffer(queue, a, b, 0, 0, 1024, 0, 0, 0));
  size_t origin[3] = {0, 0, 0}, region[3] = {16, 4, 2};
  CHECK(clEnqueueReadBufferRect(queue, a, CL_TRUE, origin, origin, region, 64, 256, 64, 256, host, 0, 0, 0));
  cl_kernel vadd = clCreateKernel(program, "vadd", &e); CHECK(e);
  float one = 1; size_t global = 1000, local = 10, eight = 8, sixtyfour = 64;
  CHECK(clSetKernelArg(vadd, 0, sizeof(a), &a)); CHECK(clSetKernelArg(vadd, 1, 4, &one));
  for (int i = 0; i < 5; ++i) CHECK(clEnqueueNDRangeKernel(queue, vadd, 1, 0, &global, &local, 0, 0, 0));
  CHECK(clEnqueueNDRangeKernel(queue, vadd, 1, 0, &global, 0, 0, 0, 0));
  cl_kernel fixed8 = clCreateKernel(program, "fixed8", &e); CHECK(e);
  CHECK(clSetKernelArg(fixed8, 0, sizeof(a), &a));
  CHECK(clEnqueueNDRangeKernel(queue, fixed8, 1, 0, &sixtyfour, &eight, 0, 0, 0));
  cl_kernel scratch = clCreateKernel(program, "scratch", &e); CHECK(e);
  CHECK(clSetKernelArg(scratch, 0, sizeof(a), &a)); CHECK(clSetKernelArg(scratch, 1, 640, 0));
  CHECK(clEnqueueNDRangeKernel(queue, scratch, 1, 0, &sixtyfour, &sixtyfour, 0, 0, 0));
  float* map = clEnqueueMapBuffer(queue, a, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, 512, 0, 0, 0, &e);
  CHECK(e);
  printf("%g\n", map[0]);
  CHECK(clEnqueueUnmapMemObject(queue, a, map, 0, 0, 0));
  CHECK(clEnqueueReadBuffer(queue, a, CL_TRUE, 0, 4000, host, 0, 0, 0));
  CHECK(clFinish(queue));
  cl_int bad = clEnqueueReadBuffer(queue, a, CL_TRUE, 4000, 4000, host, 0, 0, 0);
  printf("bad %d\n", bad);
  cl_program broken = 0; const char* text = "__kernel void f( {";
  broken = clCreateProgramWithSource(context, 1, &text, 0, &e);
  printf("broken %d\n", clBuildProgram(broken, 1, &device, "-w", 0, 0));
  clReleaseMemObject(b); clReleaseMemObject(a);
  clReleaseKernel(vadd); clReleaseProgram(program); clReleaseCommandQueue(queue); clReleaseContext(context);
  return 7;
}
"""
)


@pytest.fixture(scope="module")
def recorded(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    require_pocl()
    folder = tmp_path_factory.mktemp("opencl")
    return record([str(compile_program(COMMANDS, folder))], folder)


def test_program_is_unchanged(recorded: Recorded) -> None:
    assert recorded.code == 7, recorded.output + recorded.errors
    assert recorded.output.splitlines()[1:] == ["bad -30", "broken -11"]
    assert recorded.losses() == []


def test_every_launch_has_its_kernel(recorded: Recorded) -> None:
    api = recorded.rows("Api")
    launches = api[api["flags"] & 1 == 1]
    kernels = recorded.rows("Kernel")
    assert sorted(recorded.names(kernels)) == ["fixed8", "scratch"] + ["vadd"] * 6
    assert sorted(launches["correlation"]) == sorted(kernels["correlation"])


def test_kernel_times_lie_between_launch_and_finish(recorded: Recorded) -> None:
    api = {int(row["correlation"]): row for row in recorded.rows("Api")}
    finish = recorded.calls("clFinish")[0]
    for kernel in recorded.rows("Kernel"):
        assert api[int(kernel["correlation"])]["start"] <= kernel["queued"] <= kernel["submitted"]
        assert kernel["submitted"] <= kernel["start"] <= kernel["end"] <= finish["start"] + finish["duration"]


def test_shapes(recorded: Recorded) -> None:
    kernels = recorded.rows("Kernel")
    shapes = dict(zip(recorded.names(kernels), recorded.shapes(kernels), strict=True))
    by_launch = sorted(recorded.shapes(kernels))
    assert shapes["fixed8"] == (8, 1, 1, 8, 1, 1)
    assert by_launch.count((100, 1, 1, 10, 1, 1)) == 5
    assert by_launch.count((1000, 1, 1, 0, 0, 0)) == 1, "the driver chose: work-items, block 0"
    scratch = recorded.rows("Shape")[recorded.rows("Shape")["shared_dynamic"] > 0]
    assert scratch["shared_dynamic"].tolist() == [640]


def test_copies_and_fills(recorded: Recorded) -> None:
    copies = [(int(c["kind"]), int(c["bytes"])) for c in recorded.rows("Memcpy")]
    assert sorted(copies) == sorted([(1, 4096), (8, 1024), (2, 128), (2, 512), (1, 512), (2, 4000)])
    fills = recorded.rows("Memset")
    assert fills["bytes"].tolist() == [2048]
    assert np.array(fills["value"]).view(np.float32).tolist() == [3.0]


def test_failures_are_recorded_with_their_codes(recorded: Recorded) -> None:
    assert [int(r) for r in recorded.calls("clEnqueueReadBuffer")["result"]] == [0, -30]
    builds = recorded.rows("Build")
    assert builds["result"].tolist() == [0, -11]
    assert [recorded.texts[int(b)] for b in builds["options"]] == ["-DX=1", "-w"]
    assert "vadd" in recorded.texts[int(builds["program"][0])]
    assert (builds["duration"] > 0).all()


def test_waits_and_blocking_calls(recorded: Recorded) -> None:
    # finish once; write, read rectangle, map, read and the failed read block
    assert sorted(recorded.rows("Sync")["type"].tolist()) == [5, 7, 7, 7, 7, 7]


def test_allocations_come_and_go(recorded: Recorded) -> None:
    memory = recorded.rows("Memory")
    assert [(int(m["operation"]), int(m["bytes"])) for m in memory] == [
        (1, 4096),
        (1, 4096),
        (2, 4096),
        (2, 4096),
    ]
    assert memory["address"][0] == memory["address"][3]


def test_device_context_queue_and_clock_are_described(recorded: Recorded) -> None:
    device, context, stream = (recorded.rows(kind)[0] for kind in ("Device", "Context", "Stream"))
    assert recorded.texts[int(device["name"])]
    assert recorded.texts[int(device["uuid"])].startswith("CL-")
    assert device["memory_bytes"] > 0
    assert device["multiprocessors"] > 0
    assert context["device"] == device["device"] == stream["device"]
    assert stream["context"] == context["context"]
    kernels = recorded.rows("Kernel")
    assert set(kernels["stream"]) == {stream["stream"]}
    assert set(kernels["context"]) == {context["context"]}
    clock = recorded.rows("Clock")
    clock = clock[clock["device"] == device["device"]]
    assert len(clock)
    assert clock["uncertainty"].max() < 10_000_000
    assert (np.abs(clock["realtime"].astype(np.int64) - clock["monotonic"].astype(np.int64)) > 10**15).all()


def test_kernels_carry_their_module(recorded: Recorded) -> None:
    modules = recorded.rows("Module")
    assert len(modules) == 1
    assert modules["checksum"][0]
    assert set(recorded.rows("Kernel")["module"]) == {modules["id"][0]}
