"""The effect of GPU API functions on the calling thread, by name.

The names follow each API's own conventions: CUDA's runtime (`cuda…`) and driver (`cu…`), HIP and HSA, OpenCL (`cl…`),
MetaX's `mc…`, Level Zero (`ze…`) and Ascend's (`acl…`, `rt…`).
"""

from __future__ import annotations

import re
from functools import lru_cache

_GPU_API = re.compile(
    r"_*(cuda|cu|hip|hsa|cl|mc|ze|zes|acl|aclrt|rt|mu|musa|nccl|rccl|cublas|cudnn|cufft)(?=[A-Z_]|$)"
)
#: Waiting for the device, allocating and freeing, host registration, loading code, contexts and streams: these block the caller
#: for as long as they take.
_BLOCKING = re.compile(
    r"Synchronize|clFinish|clWaitForEvents|_wait_|"
    r"Malloc|MemAlloc|MemCreate|MemMap|MemUnmap|MemRelease|AddressReserve|Free|HostAlloc|HostRegister|HostUnregister|"
    r"Mem(Pool|AddressFree)|CreateBuffer|CreateImage|ReleaseMemObject|SVM(Alloc|Free)|"
    r"Module(Load|Unload)|Library(Load|Unload)|LinkComplete|LinkAdd|BuildProgram|CompileProgram|LinkProgram|"
    r"GraphInstantiate|GraphExecDestroy|Ctx(Create|Destroy)|PrimaryCtx|DeviceReset|^_*cuInit$|hipInit$|"
    r"Stream(Create|Destroy)|CreateContext|CreateCommandQueue"
)
_ASYNCHRONOUS = re.compile(r"Async|Enqueue")
_COPY = re.compile(r"Mem(cpy|set)|clEnqueue(Read|Write|Copy|Fill|Map)|MemPrefetch", re.IGNORECASE)
_FILL = re.compile(r"Memset|Fill", re.IGNORECASE)
_WAIT = re.compile(r"Synchronize|clFinish|clWaitForEvents|hsa_signal_wait")
_STREAM_WAIT = re.compile(
    r"StreamWait(Event|Value)|EnqueueBarrier|EnqueueMarker|StreamWaitNotify|ExternalSemaphores"
)


@lru_cache(maxsize=4096)
def is_gpu_api(function: str) -> bool:
    """Whether a function belongs to a GPU API; those of the operating system and other libraries do not."""
    return _GPU_API.match(function) is not None


@lru_cache(maxsize=4096)
def blocks(function: str) -> bool:
    """Whether a function of a GPU API blocks its caller by design."""
    if not is_gpu_api(function):
        return False
    asynchronous = _ASYNCHRONOUS.search(function) is not None
    if _COPY.search(function):
        return not asynchronous
    return _BLOCKING.search(function) is not None and not (asynchronous and "Free" in function)


@lru_cache(maxsize=4096)
def copies(function: str) -> bool:
    """Whether a function copies from, to or between device memories."""
    fills = _FILL.search(function) is not None
    return not fills and _COPY.search(function) is not None and is_gpu_api(function)


@lru_cache(maxsize=4096)
def waits(function: str) -> bool:
    """Whether a function makes its caller wait until the device has done something."""
    return _WAIT.search(function) is not None and is_gpu_api(function)


@lru_cache(maxsize=4096)
def makes_stream_wait(function: str) -> bool:
    """Whether a function makes a stream, not its caller, wait for an event or a value."""
    return _STREAM_WAIT.search(function) is not None
