"""Twenty steps of PyTorch, the 13th of which stands out: `steps.py slow|fault|pause`; after the pause, steps for ten seconds."""

from __future__ import annotations

import sys
import time

import torch

import warpsight as ws

ODD = 13


def product(factor: torch.Tensor, count: int) -> torch.Tensor:
    """`count` products of a matrix with itself, the last of which counts: longer than another process has the GPU in turn."""
    for _ in range(count):
        found = factor @ factor
    return found


def main() -> None:
    kind = sys.argv[1]
    small, large = torch.randn(256, 256, device="cuda"), torch.randn(4096, 4096, device="cuda")
    rows = torch.arange(256, device="cuda")
    torch.relu(large @ large)  # what cuBLAS does once; most kernels of a step are launched first in step 1
    torch.cuda.synchronize()
    for number in range(1, 21):
        ws.step()
        odd = number == ODD
        found = torch.relu(product(large, 10) if odd and kind == "slow" else product(small, 1))
        found[rows + 10_000 if odd and kind == "fault" else rows].sum()
        torch.cuda.synchronize()
        time.sleep(1.0 if odd and kind == "pause" else 0.01)
    end = time.monotonic() + (10 if kind == "pause" else 0)
    while time.monotonic() < end:
        ws.step()
        torch.relu(small @ small).sum()
        torch.cuda.synchronize()
        time.sleep(0.01)


if __name__ == "__main__":
    main()
