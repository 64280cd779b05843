"""The contents of a communication kernel's name: library, collective, algorithm, protocol, reduction, element type.

NCCL from 2.19 names its kernels `ncclDevKernel_AllReduce_Sum_f32_RING_LL`, before `ncclKernel_AllReduce_RING_LL_Sum_float`
(src/device/generate.py of NCCL); RCCL uses the same names. `Generic` kernels carry fused or less usual operations.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

#: Operations as kernels and NCCL's profiler interface name them.
OPERATIONS = {"AllReduce": "all-reduce", "AllGather": "all-gather", "ReduceScatter": "reduce-scatter",
              "Broadcast": "broadcast", "Reduce": "reduce", "SendRecv": "send-receive", "AllToAll": "all-to-all",
              "AlltoAll": "all-to-all", "Gather": "gather", "Scatter": "scatter", "Send": "send", "Recv": "receive",
              "Generic": "several"}  # fmt: skip
#: NCCL's functions, as its NVTX ranges are called.
CALLS = {"ncclAllReduce": "all-reduce", "ncclAllGather": "all-gather", "ncclReduceScatter": "reduce-scatter",
         "ncclBroadcast": "broadcast", "ncclReduce": "reduce", "ncclAlltoAll": "all-to-all", "ncclGather": "gather",
         "ncclScatter": "scatter", "ncclSend": "send", "ncclRecv": "receive"}  # fmt: skip
#: Operations whose NCCL ranges state the size of one rank's part; their payload is that times the number of ranks.
IN_PARTS = ("all-gather", "reduce-scatter", "all-to-all", "gather", "scatter")
#: Operations of kernels that also move other operations' messages: an all-to-all consists of sends and receives.
OPEN = ("send-receive", "several", "unknown")
#: Names of PyTorch's ranges around NCCL calls, without underscores: `nccl:_all_gather_base`, `nccl:recv 1<-0`.
_TITLE = re.compile(
    r"nccl:(allreduce|allgather|reducescatter|alltoall|broadcast|reduce|gather|scatter|send|recv)"
)
_TITLES = {"allreduce": "all-reduce", "allgather": "all-gather", "reducescatter": "reduce-scatter",
           "alltoall": "all-to-all", "recv": "receive"}  # fmt: skip
_NCCL = re.compile(rf"(?:nccl|rccl|msccl)(?:Dev)?Kernel_({'|'.join(OPERATIONS)}|\w+?)(?=_|\(|<|\.|$|IP)(\w*)")
_ALGORITHM = re.compile(r"_(RING|TREE|COLLNET_DIRECT|COLLNET_CHAIN|COLLNET|NVLS_TREE|NVLS|PAT)(?=_|$)")
_PROTOCOL = re.compile(r"_(LL128|LL|SIMPLE)(?=_|$)")
_REDUCTION = re.compile(r"_(SumPostDiv|PreMulSum|Sum|Prod|MinMax|Min|Max|Avg)(?=_|$)")
_TYPE = re.compile(
    r"_(f8e4m3|f8e5m2|bf16|f16|f32|f64|i8|u8|i32|u32|i64|u64|float|half|double|__nv_bfloat16|"
    r"(?:u?int(?:8|32|64)_t))(?=_|$)"
)
_TYPES = {"float": "f32", "half": "f16", "double": "f64", "__nv_bfloat16": "bf16", "int8_t": "i8", "uint8_t": "u8",
          "int32_t": "i32", "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64"}  # fmt: skip
#: NCCL's element types without their "nccl": the name here, and bytes.
NCCL_TYPES = {"Int8": ("i8", 1), "Uint8": ("u8", 1), "Int32": ("i32", 4), "Uint32": ("u32", 4), "Int64": ("i64", 8),
              "Uint64": ("u64", 8), "Float16": ("f16", 2), "Float32": ("f32", 4), "Float64": ("f64", 8), "Bfloat16": ("bf16", 2),
              "Float8e4m3": ("f8e4m3", 1), "Float8e5m2": ("f8e5m2", 1)}  # fmt: skip
#: Kernels of other libraries that move data between devices, with the collective they do.
_OTHERS = (
    (re.compile(r"cross_device_reduce|custom_all_?reduce|(?:one|two)_?shot_all_?reduce|multimem_all_?reduce|allreduce_fusion",
                re.IGNORECASE), "custom", "all-reduce"),
    (re.compile(r"multimem_all_?gather|custom_all_?gather", re.IGNORECASE), "custom", "all-gather"),
    (re.compile(r"nvshmem\w*barrier|nvshmem\w*(?:put|get)\w*kernel", re.IGNORECASE), "nvshmem", "put/get"),
    (re.compile(r"deep_?ep::|\bep::(?:inter|intra)node(?:_ll)?::", re.IGNORECASE), "deepep", "all-to-all"),
    (re.compile(r"\b(?:one)?ccl_?kernel|oneccl", re.IGNORECASE), "oneccl", "unknown"),
)  # fmt: skip

#: HCCL's operations: `hcom_allReduce_`, `hcom_alltoallv_`.
_HCCL = re.compile(r"\bhcom_([A-Za-z]+)")
_ANY_CASE = {name.lower(): operation for name, operation in OPERATIONS.items()}


@dataclass(frozen=True)
class CollectiveName:
    """The parts of a communication kernel's name; "" for parts that the name lacks."""

    library: str
    operation: str
    algorithm: str = ""
    protocol: str = ""
    reduction: str = ""
    dtype: str = ""


@lru_cache(maxsize=65536)
def parse(name: str) -> CollectiveName | None:
    """The collective in a kernel name (mangled or not); None for other kernels."""
    match = _NCCL.search(name)
    if match is not None:
        operation = OPERATIONS.get(match[1], match[1].lower())
        rest = "_" + match[2].strip("_")
        found = [pattern.search(rest) for pattern in (_ALGORITHM, _PROTOCOL, _REDUCTION, _TYPE)]
        algorithm, protocol, reduction, dtype = (m[1] if m else "" for m in found)
        library = "rccl" if "rccl" in name[: match.end(1)].lower() else "nccl"
        return CollectiveName(
            library,
            operation,
            algorithm.lower(),
            protocol.lower(),
            reduction.lower(),
            _TYPES.get(dtype, dtype),
        )
    match = _HCCL.search(name)
    if match is not None:
        word = match[1].lower()
        return CollectiveName("hccl", _ANY_CASE.get(word.removesuffix("v"), word))
    for pattern, library, operation in _OTHERS:
        if pattern.search(name):
            return CollectiveName(library, operation)
    return None


def titled(name: str) -> str | None:
    """The operation in the name of one of PyTorch's ranges around NCCL calls, or None."""
    found = _TITLE.match(name.replace("_", ""))
    return _TITLES.get(found[1], found[1]) if found else None
