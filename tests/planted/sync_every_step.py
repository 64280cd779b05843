"""A training-like loop that waits for the GPU after every step and only then does its book-keeping."""

import torch

STEPS = 150


def forward(x: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
    for weight in weights:
        x = torch.relu(x @ weight)
    return x


def book_keeping(step: int, losses: list[float]) -> str:
    """About 200 µs of Python that does not depend on this step's result."""
    return "".join(f"{i:x}" for i in range(1200 + step % 3))


def train() -> None:
    weights = [torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16) * 0.02 for _ in range(6)]
    x = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
    losses: list[float] = []
    for step in range(STEPS):
        forward(x, weights)
        torch.cuda.synchronize()  # planted
        book_keeping(step, losses)


train()
torch.cuda.synchronize()
