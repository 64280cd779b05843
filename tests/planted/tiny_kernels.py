"""Arithmetic on small tensors, one operator at a time: each kernel is shorter than its launch."""

import torch

STEPS = 100


def update(state: list[torch.Tensor]) -> None:
    for x in state:
        x.mul_(0.99)
        x.add_(0.01)


def train() -> None:
    state = [torch.ones(512, device="cuda") for _ in range(10)]
    for _ in range(STEPS):
        update(state)


train()
torch.cuda.synchronize()
