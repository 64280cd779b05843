"""One piece of PyTorch or Triton work in the NVTX range "cut": `work.py NAME`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch.nn.attention import SDPBackend, sdpa_kernel
from triton.tools.tensor_descriptor import TensorDescriptor

Work = Callable[[], object]


@triton.jit
def scaled_add(x, y, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n) * scale + tl.load(y + i, i < n), i < n)


@triton.jit
def row_softmax(x, y, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * columns + i, i < columns, float("-inf"))
    powers = tl.exp(row - tl.max(row, 0))
    tl.store(y + tl.program_id(0) * columns + i, powers / tl.sum(powers, 0), i < columns)


@triton.jit
def product(a, b, c, K: tl.constexpr, TILE: tl.constexpr):
    """One tile of a @ b, loaded through tensor maps."""
    row, column = tl.program_id(0) * TILE, tl.program_id(1) * TILE
    total = tl.zeros((TILE, TILE), tl.float32)
    for k in range(0, K, TILE):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    c.store([row, column], total.to(tl.bfloat16))


@triton.jit
def atomic_total(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y + i % 7, tl.load(x + i, i < n, 0), i < n)


def triton_add() -> Work:
    x, y = torch.randn(2, 10_000, device="cuda")
    return lambda: scaled_add[(10,)](x, y, 10_000, 2.5, BLOCK=1024)


def triton_softmax() -> Work:
    x = torch.randn(512, 1000, device="cuda")
    y = torch.empty_like(x)
    return lambda: row_softmax[(512,)](x, y, 1000, BLOCK=1024)


def triton_tma() -> Work:
    a, b = torch.randn(2, 512, 512, device="cuda", dtype=torch.bfloat16)
    c = torch.empty_like(a)
    maps = [TensorDescriptor.from_tensor(each, [64, 64]) for each in (a, b, c)]
    return lambda: product[(8, 8)](*maps, K=512, TILE=64)


def triton_atomics() -> Work:
    x, y = torch.randn(1 << 20, device="cuda"), torch.zeros(7, device="cuda")
    return lambda: atomic_total[(1 << 10,)](x, y, 1 << 20, BLOCK=1024)


def gemm(dtype: torch.dtype, *shape: int) -> Work:
    a, b = torch.randn(2, *shape, device="cuda").to(dtype)
    return lambda: a @ b


def attention(backend: SDPBackend, backward: bool = False) -> Work:
    parts = torch.randn(3, 2, 8, 512, 64, device="cuda", dtype=torch.bfloat16, requires_grad=backward)
    q, k, v = parts.unbind()

    def run() -> None:
        with sdpa_kernel(backend):
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            if backward:
                out.sum().backward()

    return run


def convolution() -> Work:
    layer = torch.nn.Conv2d(64, 128, 3, padding=1, device="cuda", dtype=torch.float16)
    images = torch.randn(8, 64, 56, 56, device="cuda", dtype=torch.float16)
    return lambda: layer(images)


def index_add() -> Work:
    y, x = torch.zeros(7, 64, device="cuda"), torch.randn(20_000, 64, device="cuda")
    rows = torch.randint(7, (20_000,), device="cuda")
    return lambda: y.index_add_(0, rows, x)


def of_matrix(function: Callable[[torch.Tensor], object]) -> Work:
    return partial(function, torch.randn(1000, 1000, device="cuda"))


def graph() -> Work:
    a, b = torch.randn(2, 256, 256, device="cuda")
    total = torch.zeros((), device="cuda")

    def body() -> None:
        total.zero_()
        total.add_(torch.softmax(a @ b, 1).relu().sum())

    body()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        body()
    return graph.replay


WORK: dict[str, Callable[[], Work]] = {
    "triton_add": triton_add,
    "triton_softmax": triton_softmax,
    "triton_tma": triton_tma,
    "triton_atomics": triton_atomics,
    "gemm_bf16": partial(gemm, torch.bfloat16, 1024, 1024),
    "gemm_fp32": partial(gemm, torch.float32, 300, 300),
    "gemm_batched": partial(gemm, torch.float16, 12, 256, 256),
    "attention_cudnn": partial(attention, SDPBackend.CUDNN_ATTENTION),
    "attention_flash": partial(attention, SDPBackend.FLASH_ATTENTION),
    "attention_efficient": partial(attention, SDPBackend.EFFICIENT_ATTENTION),
    "attention_backward": partial(attention, SDPBackend.FLASH_ATTENTION, backward=True),
    "convolution": convolution,
    "softmax": partial(of_matrix, lambda x: torch.softmax(x, 1)),
    "layer_norm": partial(of_matrix, lambda x: F.layer_norm(x, (1000,))),
    "sort": partial(of_matrix, lambda x: torch.sort(x.flatten())),
    "cumulative_sum": partial(of_matrix, lambda x: x.cumsum(1)),
    "index_add": index_add,
    "graph": graph,
}


def main() -> None:
    torch.manual_seed(1)
    work = WORK[sys.argv[1]]()
    for _ in range(2):
        work()
    torch.cuda.synchronize()
    with torch.cuda.nvtx.range("cut"):
        work()
        torch.cuda.synchronize()
    work()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
