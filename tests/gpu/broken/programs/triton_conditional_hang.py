"""A Triton kernel that adds one when told to, and never ends otherwise: its loop condition cannot change."""

import torch
import triton
import triton.language as tl


@triton.jit
def conditional_hang_kernel(x_ptr, go, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0)
    if go == 2:
        tl.store(x_ptr + offsets, x + 1, mask=mask)
    else:
        while go == 0:  # @loop
            x = x + 1  # @add
            tl.store(x_ptr + offsets, x, mask=mask)  # @store


x = torch.ones(16, device="cuda")
conditional_hang_kernel[(1,)](x, 2, x.numel(), BLOCK=16)
torch.cuda.synchronize()
conditional_hang_kernel[(1,)](x, 0, x.numel(), BLOCK=16)
print("launched", flush=True)
torch.cuda.synchronize()
