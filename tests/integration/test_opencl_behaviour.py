"""Order, events, threads, endings: what a program does with OpenCL stays as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.opencl_recording import compile_program, environment, record, require_pocl
from tests.integration.test_opencl_commands import PRELUDE

KERNEL = r"""
static cl_mem buffer; static cl_kernel vadd;
static void kernel_setup(void) {
  cl_int e; float one = 1;
  buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, 0, &e); CHECK(e);
  vadd = clCreateKernel(program, "vadd", &e); CHECK(e);
  CHECK(clSetKernelArg(vadd, 0, sizeof(buffer), &buffer)); CHECK(clSetKernelArg(vadd, 1, 4, &one));
}
static const size_t global = 64, local = 64;
static void launch(cl_command_queue q, cl_uint n, const cl_event* waits, cl_event* event) {
  CHECK(clEnqueueNDRangeKernel(q, vadd, 1, 0, &global, &local, n, waits, event));
}
"""

ORDER = (
    PRELUDE
    + KERNEL
    + r"""
int main(void) {
  setup(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE); kernel_setup();
  cl_int e; cl_event user = clCreateUserEvent(context, &e), first, second, marker; CHECK(e);
  launch(queue, 1, &user, &first);
  launch(queue, 1, &first, &second);
  CHECK(clEnqueueMarkerWithWaitList(queue, 1, &second, &marker));
  CHECK(clSetUserEventStatus(user, CL_COMPLETE));
  CHECK(clWaitForEvents(1, &marker));
  cl_uint references = 0; cl_ulong t = 0; cl_command_queue_properties p = 0; size_t n = 99;
  CHECK(clGetEventInfo(first, CL_EVENT_REFERENCE_COUNT, 4, &references, 0));
  printf("references %u\n", references);
  printf("profiling %d\n", clGetEventProfilingInfo(first, CL_PROFILING_COMMAND_START, 8, &t, 0));
  CHECK(clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof(p), &p, 0));
  printf("properties %d\n", (int)p);
  cl_queue_properties list[8];
  e = clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES_ARRAY, sizeof(list), list, &n);
  printf("array %d %zu\n", e, n);
  cl_queue_properties timed[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0};
  cl_command_queue own = clCreateCommandQueueWithProperties(context, device, timed, &e); CHECK(e);
  cl_event e3; launch(own, 0, 0, &e3); CHECK(clFinish(own));
  printf("own %d\n", clGetEventProfilingInfo(e3, CL_PROFILING_COMMAND_START, 8, &t, 0));
  CHECK(clReleaseEvent(first)); CHECK(clReleaseEvent(second)); CHECK(clReleaseEvent(marker));
  CHECK(clReleaseEvent(e3)); CHECK(clReleaseEvent(user));
  CHECK(clGetCommandQueueInfo(own, CL_QUEUE_REFERENCE_COUNT, 4, &references, 0));
  printf("queue references %u\n", references);
  cl_command_queue third = clCreateCommandQueue(context, device, 0, &e); CHECK(e);
  for (int i = 0; i < 20; ++i) launch(third, 0, 0, 0);
  CHECK(clReleaseCommandQueue(third));              /* with commands under way */
  CHECK(clFinish(queue));
  return 0;
}
"""
)

THREADS = (
    PRELUDE
    + KERNEL
    + r"""
#include <pthread.h>
static void* work(void* unused) {
  cl_int e; cl_command_queue own = clCreateCommandQueue(context, device, 0, &e); CHECK(e);
  cl_kernel k = clCreateKernel(program, "vadd", &e); CHECK(e);
  float one = 1; CHECK(clSetKernelArg(k, 0, sizeof(buffer), &buffer)); CHECK(clSetKernelArg(k, 1, 4, &one));
  for (int i = 0; i < 500; ++i) {
    cl_event event = 0;
    CHECK(clEnqueueNDRangeKernel(own, k, 1, 0, &global, &local, 0, 0, i % 3 ? 0 : &event));
    if (event) CHECK(clReleaseEvent(event));
  }
  CHECK(clFinish(own)); CHECK(clReleaseKernel(k)); CHECK(clReleaseCommandQueue(own));
  return unused;
}
int main(void) {
  setup(0); kernel_setup(); launch(queue, 0, 0, 0); CHECK(clFinish(queue));
  pthread_t threads[8];
  for (int i = 0; i < 8; ++i) pthread_create(&threads[i], 0, work, 0);
  for (int i = 0; i < 8; ++i) pthread_join(threads[i], 0);
  return 0;
}
"""
)

ENDINGS = (
    PRELUDE
    + KERNEL
    + r"""
#include <unistd.h>
#include <sys/wait.h>
int main(int argc, char** argv) {
  setup(0); kernel_setup(); launch(queue, 0, 0, 0); CHECK(clFinish(queue));
  if (!strcmp(argv[1], "leave")) { for (int i = 0; i < 100; ++i) launch(queue, 0, 0, 0); exit(5); }
  if (!strcmp(argv[1], "fork")) {
    pid_t child = fork();
    if (!child) { size_t n; clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, 0, 0, &n); _exit(9); }
    int status; waitpid(child, &status, 0); printf("child %d\n", WEXITSTATUS(status)); return 0;
  }
  for (int i = 0; i < 50; ++i) launch(queue, 0, 0, 0);
  CHECK(clFinish(queue)); puts("ready"); fflush(stdout);
  for (;;) pause();
}
"""
)

PYTHON = r"""
import ctypes, ctypes.util
cl = ctypes.CDLL(ctypes.util.find_library("OpenCL"))
for name in ("clCreateContext", "clCreateCommandQueue", "clCreateProgramWithSource", "clCreateKernel",
             "clCreateBuffer"):
    getattr(cl, name).restype = ctypes.c_void_p
P, Z = ctypes.c_void_p, ctypes.c_size_t
platform, device = P(), P()
assert not cl.clGetPlatformIDs(1, ctypes.byref(platform), None)
assert not cl.clGetDeviceIDs(platform, ctypes.c_ulong(0xFFFFFFFF), 1, ctypes.byref(device), None)
context = P(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, None))
queue = P(cl.clCreateCommandQueue(context, device, ctypes.c_ulong(0), None))
source = ctypes.c_char_p(b"__kernel void touch(__global int* a) { a[get_global_id(0)] = 1; }")
program = P(cl.clCreateProgramWithSource(context, 1, ctypes.byref(source), None, None))
assert not cl.clBuildProgram(program, 0, None, None, None, None)
kernel = P(cl.clCreateKernel(program, b"touch", None))
buffer = P(cl.clCreateBuffer(context, ctypes.c_ulong(1), Z(4096), None, None))
assert not cl.clSetKernelArg(kernel, 0, Z(8), ctypes.byref(buffer))
def inner():
    assert not cl.clEnqueueNDRangeKernel(queue, kernel, 1, None, ctypes.byref(Z(64)), None, 0, None, None)
def outer():
    inner()
for _ in range(10):
    outer()
assert not cl.clFinish(queue)
"""


@pytest.fixture
def pocl(library: Path) -> None:
    require_pocl()


def test_wait_lists_become_flows(pocl: None, tmp_path: Path) -> None:
    recorded = record([str(compile_program(ORDER, tmp_path))], tmp_path)
    assert recorded.code == 0, recorded.output + recorded.errors
    launches = recorded.rows("Api")[recorded.rows("Api")["flags"] & 1 == 1]
    first, second = (int(c) for c in launches["correlation"][:2])
    user = int(recorded.calls("clCreateUserEvent")["correlation"][0])
    marker = int(recorded.calls("clEnqueueMarkerWithWaitList")["correlation"][0])
    wait = int(recorded.calls("clWaitForEvents")["correlation"][0])
    low = 0xFFFFFFFF
    flows = {
        (int(f["from_correlation"]) & low, int(f["to_correlation"]) & low) for f in recorded.rows("Flow")
    }
    assert {(user, first), (first, second), (second, marker), (marker, wait)} <= flows
    assert len(recorded.rows("Kernel")) == 23
    assert recorded.losses() == []


def test_program_sees_neither_profiling_nor_references_of_ours(pocl: None, tmp_path: Path) -> None:
    program = compile_program(ORDER, tmp_path)
    plain = subprocess.run([program], capture_output=True, text=True, check=True)
    assert record([str(program)], tmp_path).output == plain.stdout
    assert "profiling -7" in plain.stdout
    assert "own 0" in plain.stdout


def test_eight_threads(pocl: None, tmp_path: Path) -> None:
    recorded = record([str(compile_program(THREADS, tmp_path))], tmp_path)
    assert recorded.code == 0, recorded.errors
    kernels = recorded.rows("Kernel")
    assert len(kernels) == 4001
    assert len(set(kernels["correlation"].tolist())) == 4001
    assert len(set(kernels["stream"].tolist())) == 9
    assert recorded.losses() == []


def test_work_under_way_at_exit_is_kept(pocl: None, tmp_path: Path) -> None:
    recorded = record([str(compile_program(ENDINGS, tmp_path)), "leave"], tmp_path)
    assert recorded.code == 5
    assert len(recorded.rows("Kernel")) == 101


def test_forked_child_records_nothing_and_lives(pocl: None, tmp_path: Path) -> None:
    recorded = record([str(compile_program(ENDINGS, tmp_path)), "fork"], tmp_path)
    assert (recorded.code, recorded.output) == (0, "child 9\n")
    assert len(recorded.rows("Kernel")) == 1


def test_killed_program_leaves_what_it_did(pocl: None, tmp_path: Path) -> None:
    recorded = record([str(compile_program(ENDINGS, tmp_path)), "wait"], tmp_path,
                      on_line=lambda process, line: os.kill(process.pid, signal.SIGKILL))  # fmt: skip
    assert recorded.code == -signal.SIGKILL
    assert len(recorded.rows("Kernel")) == 51


def test_profiling_off_records_the_host_side_and_says_so(pocl: None, tmp_path: Path) -> None:
    program = compile_program(ORDER, tmp_path)
    recorded = record([str(program)], tmp_path, WARPSIGHT_OPENCL_PROFILING="off")
    api = recorded.rows("Api")
    assert recorded.code == 0
    assert (api["flags"] & 1).sum() == 23
    assert len(recorded.rows("Kernel")) == 1, "the queue on which the program itself asked for profiling"
    causes = [recorded.texts[int(r["cause"])] for r in recorded.rows("Loss")]
    assert any("profiling is off" in cause for cause in causes)


def test_api_all_adds_queries(pocl: None, tmp_path: Path) -> None:
    recorded = record([str(compile_program(ORDER, tmp_path))], tmp_path, WARPSIGHT_API="all")
    assert len(recorded.calls("clGetEventInfo")) == 1


def test_kernel_patterns_choose(pocl: None, tmp_path: Path) -> None:
    recorded = record([str(compile_program(THREADS, tmp_path))], tmp_path, WARPSIGHT_KERNELS="scratch*")
    assert recorded.code == 0
    assert len(recorded.rows("Kernel")) == 0


def test_python_program_has_python_stacks(pocl: None, tmp_path: Path) -> None:
    script = tmp_path / "launches.py"
    script.write_text(PYTHON)
    recorded = record([sys.executable, str(script)], tmp_path)
    assert recorded.code == 0, recorded.errors
    launches = recorded.rows("Api")[recorded.rows("Api")["flags"] & 1 == 1]
    assert recorded.names(launches) == ["touch"] * 10
    assert {tuple(recorded.stack(int(s))) for s in launches["stack"]} == {("inner", "outer", "<module>")}


def test_without_a_launcher_the_layer_is_silent(pocl: None, tmp_path: Path) -> None:
    program = compile_program(THREADS, tmp_path)
    settings = environment(tmp_path)
    del settings["WARPSIGHT_SOCKET"]
    done = subprocess.run([program], env=settings, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
