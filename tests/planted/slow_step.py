"""Forty steps of equal work, except that step 27 evaluates on a large batch."""

import torch

STEPS, SLOW = 40, 27


def step_of(model: torch.nn.Module, batch: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def evaluate(model: torch.nn.Module) -> None:
    with torch.no_grad():
        batch = torch.randn(16384, 2048, device="cuda")
        for _ in range(12):
            model(batch)


def train() -> None:
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (torch.nn.Linear(2048, 2048), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=True)
    batch = torch.randn(4096, 2048, device="cuda")
    for step in range(STEPS):
        torch.cuda.nvtx.range_push(f"step {step}")
        step_of(model, batch, optimizer)
        if step == SLOW:
            evaluate(model)  # planted
        torch.cuda.nvtx.range_pop()


train()
torch.cuda.synchronize()
