"""Launches under ids that this program pushes to CUPTI itself; prints their number."""

import ctypes
from pathlib import Path

import torch

CUSTOM0 = 3
x = torch.zeros(256, device="cuda")
mapped = {
    line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libcupti.so" in line
}
cupti = ctypes.CDLL(sorted(mapped)[0])
for number in range(5):
    assert cupti.cuptiActivityPushExternalCorrelationId(CUSTOM0, ctypes.c_uint64(1000 + number)) == 0
    x.add_(1)
    last = ctypes.c_uint64()
    assert cupti.cuptiActivityPopExternalCorrelationId(CUSTOM0, ctypes.byref(last)) == 0
    assert last.value == 1000 + number
    x.mul_(1)
torch.cuda.synchronize()
print(5)
