"""Sub-devices, several contexts, shared virtual memory, images and builds with a callback."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.integration.opencl_recording import Recorded, compile_program, record, require_pocl

PROGRAM = r"""
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#define CHECK(x) do { cl_int e_ = (x); if (e_) { printf("line %d: %d\n", __LINE__, e_); exit(2); } } while (0)
static void CL_CALLBACK told(cl_program p, void* d) { *(int*)d = 1; (void)p; }
int main(void) {
  cl_platform_id p; cl_device_id d, sub[2]; cl_int e; cl_uint n;
  CHECK(clGetPlatformIDs(1,&p,0)); CHECK(clGetDeviceIDs(p,CL_DEVICE_TYPE_ALL,1,&d,0));
  cl_device_partition_property part[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
  CHECK(clCreateSubDevices(d, part, 2, sub, &n)); printf("sub %u\n", n);
  cl_context c = clCreateContext(0, n, sub, 0, 0, &e); CHECK(e);
  cl_context_properties on[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)p, 0};
  cl_context c2 = clCreateContextFromType(on, CL_DEVICE_TYPE_ALL, 0, 0, &e); CHECK(e);
  const char* s = "__kernel void k(__global int* a){a[get_global_id(0)]=1;}";
  volatile int built = 0;
  cl_program g = clCreateProgramWithSource(c,1,&s,0,&e); CHECK(e);
  CHECK(clBuildProgram(g,0,0,"",told,(void*)&built));
  while (!built) {}
  cl_kernel k; cl_uint nk; CHECK(clCreateKernelsInProgram(g,1,&k,&nk));
  int* svm = clSVMAlloc(c, CL_MEM_READ_WRITE, 4096, 0);
  for (int i = 0; i < (int)n; i++) {
    cl_command_queue q = clCreateCommandQueue(c, sub[i], 0, &e); CHECK(e);
    CHECK(clSetKernelArgSVMPointer(k,0,svm)); size_t w = 64;
    int z=0, host[64]; CHECK(clEnqueueSVMMemFill(q, svm, &z, 4, 256, 0,0,0));
    CHECK(clEnqueueNDRangeKernel(q,k,1,0,&w,&w,0,0,0));
    CHECK(clEnqueueSVMMemcpy(q, CL_TRUE, host, svm, 256, 0,0,0));
    CHECK(clEnqueueSVMMap(q, CL_TRUE, CL_MAP_READ, svm, 256, 0,0,0)); CHECK(clEnqueueSVMUnmap(q, svm, 0,0,0));
    CHECK(clFinish(q)); printf("%d\n", host[5]); clReleaseCommandQueue(q);}
  cl_image_format f = {CL_RGBA, CL_FLOAT};
  cl_image_desc dd = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 16, .image_height = 8};
  cl_command_queue q = clCreateCommandQueue(c2, d, 0, &e); CHECK(e);
  cl_mem im = clCreateImage(c2, CL_MEM_READ_WRITE, &f, &dd, 0, &e); CHECK(e);
  float px[16*8*4]; size_t o[3]={0}, r[3]={16,8,1}; float col[4]={1,2,3,4};
  CHECK(clEnqueueFillImage(q, im, col, o, r, 0,0,0));
  CHECK(clEnqueueReadImage(q, im, CL_TRUE, o, r, 0,0,px,0,0,0)); printf("%g\n", px[5]);
  size_t rp; void* m = clEnqueueMapImage(q, im, CL_TRUE, CL_MAP_WRITE, o, r, &rp, 0, 0,0,0,&e); CHECK(e);
  CHECK(clEnqueueUnmapMemObject(q, im, m, 0,0,0));
  cl_mem objs[]={im}; CHECK(clEnqueueMigrateMemObjects(q,1,objs,CL_MIGRATE_MEM_OBJECT_HOST,0,0,0));
  CHECK(clEnqueueBarrier(q)); CHECK(clFinish(q));
  clSVMFree(c, svm); clReleaseMemObject(im); return 0; }
"""


@pytest.fixture(scope="module")
def recorded(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    require_pocl()
    folder = tmp_path_factory.mktemp("opencl")
    found = record([str(compile_program(PROGRAM, folder))], folder)
    if "sub 2" not in found.output:
        pytest.skip("the device cannot be cut into two sub-devices: " + found.output)
    assert found.code == 0, found.output + found.errors
    assert found.losses() == []
    return found


def test_sub_devices_are_their_parents_device(recorded: Recorded) -> None:
    assert len(recorded.rows("Device")) == 1
    assert len(recorded.rows("Context")) == 2
    assert len(recorded.rows("Stream")) == 3
    assert len(set(recorded.rows("Kernel")["stream"].tolist())) == 2


def test_shared_virtual_memory(recorded: Recorded) -> None:
    managed = recorded.rows("Memcpy")[recorded.rows("Memcpy")["source_kind"] == 5]
    kinds = Counter((int(c["kind"]), int(c["bytes"])) for c in managed)
    assert kinds == {(2, 256): 4, (1, 0): 2}, "copy and map to the host, unmap, on each sub-device"
    assert sorted(recorded.rows("Memset")["bytes"].tolist()) == [256, 256, 16 * 8 * 16]


def test_images_are_arrays(recorded: Recorded) -> None:
    read = recorded.calls("clEnqueueReadImage")[0]
    copy = next(c for c in recorded.rows("Memcpy") if c["correlation"] == read["correlation"])
    assert (copy["kind"], copy["bytes"], copy["source_kind"]) == (4, 16 * 8 * 16, 4)


def test_memory_is_given_back(recorded: Recorded) -> None:
    memory = recorded.rows("Memory")
    assert Counter(memory["operation"].tolist()) == {1: 2, 2: 2}
    assert set(memory["address"][memory["operation"] == 1]) == set(
        memory["address"][memory["operation"] == 2]
    )


def test_build_with_a_callback_ends_when_it_is_called(recorded: Recorded) -> None:
    (build,) = recorded.rows("Build")
    (call,) = recorded.calls("clBuildProgram")
    assert build["result"] == 0
    assert build["start"] == call["start"]
    assert len(recorded.rows("Module")) == 1
