"""Names of API functions by the numbers the recorders write.

The lists beside this module have one `number name` per line. CUPTI's come from `cupti_runtime_cbid.h` and
`cupti_driver_cbid.h` (CUDA 13; numbers are never reused, so older ones are a subset), OpenCL's from the order
of `struct _cl_icd_dispatch` in `CL/cl_icd.h`, from 0. HIP's are our own numbers, because rocprofiler-sdk renumbered
its own once: the order of `rocprofiler_hip_runtime_api_id_t` with every step of HIP's table. The recorder is built with the
same list and finds the functions of the library it meets by name (native/rocm/api_rules.cpp). MACA's have no list: their
numbers are given and named by the recorder, in rows of kind `ApiFunction`.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from warpsight.capture.segments import layout

_LISTS = {
    layout.API_CUDA_RUNTIME: "cuda_runtime.txt",
    layout.API_CUDA_DRIVER: "cuda_driver.txt",
    layout.API_OPENCL: "opencl.txt",
    layout.API_HIP: "hip_runtime.txt",
}
_DOMAINS = {
    layout.API_CUDA_RUNTIME: "cuda runtime",
    layout.API_CUDA_DRIVER: "cuda driver",
    layout.API_OPENCL: "opencl",
    layout.API_USER: "user",
    layout.API_HIP: "hip",
    layout.API_MACA: "maca",
}


@lru_cache(maxsize=8)
def names(domain: int) -> dict[int, str]:
    """Function names of one API domain by number; empty for a domain without a list."""
    if domain not in _LISTS:
        return {}
    lines = (Path(__file__).parent / _LISTS[domain]).read_text().splitlines()
    return {int(number): name for number, _, name in (line.partition(" ") for line in lines)}


def name(domain: int, number: int) -> str:
    """The function's name, or its domain and number when this version does not know it."""
    known = names(domain).get(number)
    return known if known else f"{_DOMAINS.get(domain, f'api {domain}')} function {number}"
