"""A split-K GEMM in Triton without the barrier before its hand-over: the program of docs/tutorial/flaky-gemm.md."""

import sys

import torch
import triton
import triton.language as tl

import warpsight as ws

BLOCK, PARTS = 64, 4


@triton.jit
def gemm_kernel(a, b, c, turns, N, K, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    row, column, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rows = row * BLOCK + tl.arange(0, BLOCK)
    columns = column * BLOCK + tl.arange(0, BLOCK)
    inner = part * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, K, BLOCK * PARTS):
        tile_a = tl.load(a + rows[:, None] * K + (inner + k)[None, :])
        tile_b = tl.load(b + (inner + k)[:, None] * N + columns[None, :])
        total = tl.dot(tile_a, tile_b, total)
    turn = turns + row * tl.num_programs(1) + column
    while tl.atomic_cas(turn, part, part) != part:  # the parts of a tile add in turn
        pass
    place = c + rows[:, None] * N + columns[None, :]
    tl.store(place, tl.load(place) + total)
    tl.atomic_xchg(turn, part + 1)


def gemm(a, b):
    (m, k), n = a.shape, b.shape[1]
    c = torch.zeros(m, n, device="cuda")
    turns = torch.zeros(m // BLOCK, n // BLOCK, dtype=torch.int32, device="cuda")
    gemm_kernel[(m // BLOCK, n // BLOCK, PARTS)](a, b, c, turns, n, k, BLOCK, PARTS)
    return c


a = torch.randint(-4, 5, (128, 512)).float()
b = torch.randint(-4, 5, (512, 128)).float()
expected = (a @ b).cuda()
a, b = a.half().cuda(), b.half().cuda()


@ws.race.trial
def is_right():
    return torch.equal(gemm(a, b), expected)


wrong = sum(not is_right() for _ in range(int(sys.argv[1])))
print(f"wrong {wrong} of {sys.argv[1]}")
sys.exit(wrong > 0)
