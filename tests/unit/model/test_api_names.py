"""What functions of GPU APIs do to the thread that calls them, in each API's own names."""

from __future__ import annotations

import pytest

from warpsight.model.naming.api_names import blocks, is_gpu_api, makes_stream_wait, waits
from warpsight.model.naming.api_names import copies as does_copy


@pytest.mark.parametrize(
    "function",
    [
        "cudaMalloc", "cuMemAlloc_v2", "cuInit", "__cudaRegisterFatBinary", "__cudaPushCallConfiguration", "hipMalloc",
        "hsa_signal_wait_scacquire", "clFinish", "mcMalloc", "zeInit", "zesInit", "aclrtMalloc", "aclInit", "rtMalloc",
        "muMemAlloc", "musaMalloc", "ncclAllReduce", "rcclAllReduce", "cublasCreate_v2", "cudnnCreate", "cufftExecC2C", "cu",
    ],
)  # fmt: skip
def test_functions_of_gpu_apis(function):
    assert is_gpu_api(function)


@pytest.mark.parametrize(
    "function",
    ["read", "epoll_wait", "pthread_cond_wait", "clone", "close", "clock_gettime", "custom_op", "cut", "rtld", "mcount", "zero",
     "malloc", "my_cudaMalloc", "sem_wait", "", "hipster", "aclosure", "clear_cache", "multiply"],
)  # fmt: skip
def test_functions_of_the_system_and_of_other_libraries(function):
    assert not is_gpu_api(function)
    assert not blocks(function)
    assert not waits(function)


WAITS = ["cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaStreamSynchronize_ptsz", "cuCtxSynchronize", "cuEventSynchronize",
         "hipDeviceSynchronize", "clFinish", "clWaitForEvents", "hsa_signal_wait_scacquire", "mcDeviceSynchronize",
         "zeEventHostSynchronize", "zeFenceHostSynchronize", "aclrtSynchronizeStream", "rtStreamSynchronize"]  # fmt: skip


@pytest.mark.parametrize("function", WAITS)
def test_waiting_for_the_device_blocks(function):
    assert waits(function)
    assert blocks(function)


@pytest.mark.parametrize(
    "function",
    [
        "cudaStreamWaitEvent",
        "cudaEventQuery",
        "cudaMalloc",
        "cudaMemcpy",
        "cudaLaunchKernel",
        "cudaEventRecord",
        "cudaFree",
    ],
)
def test_nothing_else_is_a_wait_of_the_host(function):
    assert not waits(function)


@pytest.mark.parametrize(
    "function",
    [
        "cudaMalloc", "cudaMallocHost", "cudaMallocManaged", "cuMemAlloc_v2", "cuMemAllocHost_v2", "cuMemCreate", "cuMemMap",
        "cuMemUnmap", "cuMemRelease", "cuMemAddressReserve", "cuMemAddressFree", "cuMemPoolTrimTo", "cudaMemPoolCreate",
        "cudaFree", "cudaFreeHost", "cuMemFree_v2", "hipFree", "hipHostFree", "cudaHostAlloc", "cuMemHostAlloc",
        "cudaHostRegister", "cudaHostUnregister", "cuMemHostRegister_v2", "hsa_amd_memory_pool_allocate",
        "clCreateBuffer", "clCreateImage", "clReleaseMemObject", "clSVMAlloc", "clSVMFree", "zeMemAllocDevice", "zeMemFree",
        "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleUnload", "cuLibraryLoadData", "cuLibraryUnload", "hipModuleLoad",
        "cuLinkComplete", "cuLinkAddData_v2", "clBuildProgram", "clCompileProgram", "clLinkProgram",
        "cudaGraphInstantiate", "cuGraphInstantiateWithFlags", "cudaGraphExecDestroy",
        "cuCtxCreate_v2", "cuCtxDestroy_v2", "cuDevicePrimaryCtxRetain", "cudaDeviceReset", "cuInit", "__cuInit", "hipInit",
        "cudaStreamCreateWithFlags", "cudaStreamDestroy", "cuStreamCreate", "clCreateContext", "clCreateCommandQueue",
        "aclrtMalloc", "mcMalloc",
    ],
)  # fmt: skip
def test_what_allocates_loads_code_or_makes_contexts_and_streams_blocks(function):
    assert (
        blocks(function) or function == "hsa_amd_memory_pool_allocate"
    )  # HSA has its own words; see the next test


def test_names_that_follow_no_convention_known_are_judged_by_their_length_alone():
    assert not blocks("hsa_amd_memory_pool_allocate")


@pytest.mark.parametrize(
    "function",
    [
        "cudaLaunchKernel", "cuLaunchKernelEx", "cudaLaunchKernelExC", "cudaGraphLaunch", "hipLaunchKernel",
        "hipModuleLaunchKernel",
        "cudaEventRecord", "cudaEventCreateWithFlags", "cudaEventDestroy", "cudaEventQuery", "cudaStreamQuery",
        "cudaStreamWaitEvent", "cudaGetDevice", "cudaSetDevice", "cuCtxGetCurrent", "cuCtxSetCurrent", "cudaPointerGetAttributes",
        "cudaMallocAsync", "cudaStreamIsCapturing", "cuModuleGetFunction", "clEnqueueNDRangeKernel", "clSetKernelArg",
        "cuInitialize", "cudaFuncGetAttributes",
    ],
)  # fmt: skip
def test_what_only_queues_or_asks_does_not_block(function):
    assert not blocks(function) or function == "cudaMallocAsync"


def test_allocation_in_stream_order_may_wait_and_freeing_in_stream_order_does_not():
    # The pool may have to grow, which is cudaMalloc's work; memory that goes back to the pool costs nothing.
    assert blocks("cudaMallocAsync")
    assert blocks("cuMemAllocAsync")
    assert not blocks("cudaFreeAsync")
    assert not blocks("cuMemFreeAsync")


@pytest.mark.parametrize(
    ("function", "held"),
    [
        ("cudaMemcpy", True), ("cuMemcpyHtoD_v2", True), ("hipMemcpy", True), ("cudaMemset", True), ("hipMemcpyWithStream", True),
        ("aclrtMemcpy", True), ("cudaMemcpyAsync", False), ("cuMemcpyDtoHAsync_v2", False), ("cudaMemsetAsync", False),
        ("cudaMemcpyToSymbol", True), ("cudaMemPrefetchAsync", False), ("clEnqueueReadBuffer", False),
        ("clEnqueueWriteBuffer", False), ("clEnqueueMapBuffer", False), ("clEnqueueFillBuffer", False), ("memcpy", False),
    ],
)  # fmt: skip
def test_copies_hold_their_caller_unless_they_are_asynchronous_or_queued(function, held):
    assert blocks(function) is held
    assert not waits(function)


@pytest.mark.parametrize(
    "function",
    ["cudaStreamWaitEvent", "cudaStreamWaitEvent_ptsz", "cuStreamWaitEvent", "cuStreamWaitValue32", "hipStreamWaitEvent",
     "clEnqueueBarrierWithWaitList", "clEnqueueMarkerWithWaitList", "aclrtStreamWaitEvent", "cudaWaitExternalSemaphoresAsync_v2"],
)  # fmt: skip
def test_functions_that_make_a_stream_wait(function):
    assert makes_stream_wait(function)
    assert not waits(function)


@pytest.mark.parametrize("function", [*WAITS, "cudaEventRecord", "cudaLaunchKernel", "pthread_cond_wait"])
def test_functions_that_make_no_stream_wait(function):
    assert not makes_stream_wait(function)


@pytest.mark.parametrize(
    ("function", "copies"),
    [
        ("cudaMemcpy", True), ("cuMemcpyDtoHAsync_v2", True), ("hipMemcpyWithStream", True), ("clEnqueueReadBuffer", True),
        ("cudaMemset", False), ("clEnqueueFillBuffer", False), ("cudaMalloc", False), ("memcpy", False),
    ],
)  # fmt: skip
def test_functions_that_copy(function, copies):
    assert does_copy(function) == copies
