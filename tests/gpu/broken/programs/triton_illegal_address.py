"""A Triton gather with an index far outside."""

import torch
import triton
import triton.language as tl


@triton.jit
def gather_rows(x_ptr, index_ptr):
    index = tl.load(index_ptr)
    return tl.load(x_ptr + index)  # @load


@triton.jit
def gather_kernel(out_ptr, x_ptr, index_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = gather_rows(x_ptr, index_ptr + offsets)  # @kernel
    tl.store(out_ptr + offsets, value)


x = torch.ones(1024, device="cuda")
index = torch.zeros(512, device="cuda", dtype=torch.int64)
index[300] = 1 << 40
torch.cuda.synchronize()
gather_kernel[(4,)](torch.empty_like(x), x, index, BLOCK=128)
print("launched", flush=True)
torch.cuda.synchronize()
