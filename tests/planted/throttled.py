"""Matrix products that draw more power than the GPU may: its clock falls below the maximum."""

import time

import torch

SECONDS = 3.5


def multiply(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    torch.mm(a, b, out=out)


def train() -> None:
    a = torch.randn(
        8192, 8192, device="cuda", dtype=torch.bfloat16
    )  # planted: random data costs the most power
    b = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(a)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for _ in range(20):
            multiply(a, b, out)
        torch.cuda.synchronize()


train()
