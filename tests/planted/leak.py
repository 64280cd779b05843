"""A list keeps what every step made, for statistics that nobody reads."""

import torch

STEPS = 80


class Statistics:
    def __init__(self) -> None:
        self.kept: list[torch.Tensor] = []

    def remember(self, activation: torch.Tensor) -> None:
        self.kept.append(activation.clone())  # planted


def train() -> None:
    weight = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    statistics = Statistics()
    for _ in range(STEPS):
        activation = torch.relu(x @ weight)
        statistics.remember(activation)


train()
torch.cuda.synchronize()
