"""Names of API functions by the numbers the recorders write.

The lists beside this module have one `number name` per line. CUPTI's come from `cupti_runtime_cbid.h` and `cupti_driver_cbid.h`
(CUDA 13; numbers are never reused, so older ones are a subset), OpenCL's from the order of `struct _cl_icd_dispatch` in
`CL/cl_icd.h`, from 0. Other backends bring lists of their own (:class:`warpsight.machine.backends.backend.ApiFunctions`), or
their recorder reports function names in rows of kind `ApiFunction`.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from warpsight.capture.segments import layout
from warpsight.machine.backends import registry
from warpsight.machine.backends.backend import ApiFunctions

_HERE = Path(__file__).parent
_CORE = {
    one.domain: one
    for one in (
        ApiFunctions(layout.API_CUDA_RUNTIME, "cuda runtime", _HERE / "cuda_runtime.txt"),
        ApiFunctions(layout.API_CUDA_DRIVER, "cuda driver", _HERE / "cuda_driver.txt"),
        ApiFunctions(layout.API_OPENCL, "opencl", _HERE / "opencl.txt"),
        ApiFunctions(layout.API_USER, "user"),
    )
}


@lru_cache(maxsize=1)
def domains() -> dict[int, ApiFunctions]:
    """All API domains by number, including those of backends in other packages."""
    found = {one.domain: one for backend in registry.all_backends().values() for one in backend.functions}
    return {**found, **_CORE}


def _domain(number: int) -> ApiFunctions | None:
    return _CORE.get(number) or domains().get(number)


@lru_cache(maxsize=8)
def names(domain: int) -> dict[int, str]:
    """Function names of one API domain by number; empty for a domain without a list."""
    found = _domain(domain)
    if found is None or found.names is None:
        return {}
    return {
        int(number): name
        for number, _, name in (line.partition(" ") for line in found.names.read_text().splitlines())
    }


def name(domain: int, number: int) -> str:
    """The function's name, or its domain and number when this version does not know it."""
    known = names(domain).get(number)
    if known:
        return known
    found = _domain(domain)
    return f"{found.name if found is not None else f'api {domain}'} function {number}"
