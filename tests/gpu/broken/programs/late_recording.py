"""A hang with the recorder in the process, begun late: `during` hangs inside `warpsight.record`, `after` behind it."""

import sys

import torch
import triton
import triton.language as tl

import warpsight


@triton.jit
def wait_kernel(flag_ptr):
    while tl.atomic_add(flag_ptr, 0) == 0:  # @spin
        pass


flag = torch.zeros(1, device="cuda", dtype=torch.int32)
torch.cuda.synchronize()
if sys.argv[1] == "during":
    with warpsight.record("during.warp"):
        wait_kernel[(1,)](flag)
        print("launched", flush=True)
        torch.cuda.synchronize()
with warpsight.record("before.warp"):
    flag.add_(0)
    torch.cuda.synchronize()
wait_kernel[(1,)](flag)
print("launched", flush=True)
torch.cuda.synchronize()
