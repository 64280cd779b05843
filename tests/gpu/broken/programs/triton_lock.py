"""A Triton kernel takes a lock that an earlier one forgot to release."""

import torch
import triton
import triton.language as tl


@triton.jit
def acquire(lock_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) != 0:  # @acquire
        pass


@triton.jit
def add_under_lock(lock_ptr, sum_ptr, x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    acquire(lock_ptr)  # @kernel
    tl.store(sum_ptr, tl.load(sum_ptr) + tl.sum(x, axis=0))


x = torch.ones(4 * 128, device="cuda")
lock = torch.ones(1, device="cuda", dtype=torch.int32)
total = torch.zeros(1, device="cuda")
add_under_lock[(4,)](lock, total, x, BLOCK=128)
print("launched", flush=True)
torch.cuda.synchronize()
