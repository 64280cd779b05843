"""Every batch is copied to the GPU from ordinary (pageable) memory."""

import torch

STEPS = 60


def compute(batch: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.relu(batch @ weight)


def train() -> None:
    weight = torch.randn(2048, 2048, device="cuda")
    batches = [torch.randn(4096, 2048) for _ in range(4)]
    for step in range(STEPS):
        batch = batches[step % 4].to(
            "cuda", non_blocking=True
        )  # planted: not pinned, so it blocks all the same
        compute(batch, weight)


train()
torch.cuda.synchronize()
