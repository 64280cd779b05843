"""Training split over ranks in one of three ways, with one planted fault; start it with torchrun.

    torchrun --nproc-per-node 4 layouts.py fsdp|tensor|pipeline even|straggler|loader|hang [--rank 1] [--steps 40]

`--rank` has the fault. straggler: from step 15 on it computes more. loader: it prepares its batch late. hang: at step 20 it
never comes. Runs on NCCL where there are GPUs, else on gloo; with fewer GPUs than ranks they share (NCCL then believes that every
rank has a host of its own).
"""

from __future__ import annotations

import argparse
import datetime
import os
import time

import torch
import torch.distributed as dist

try:
    from warpsight import annotate, step
except ImportError:  # recorded or not, it is the same program
    from contextlib import nullcontext as annotate

    def step() -> None: ...


class Sum(torch.autograd.Function):
    """The sum over all ranks, forward; the gradient as it is, backward."""

    @staticmethod
    def forward(_, value):
        value = value.clone()
        dist.all_reduce(value)
        return value

    @staticmethod
    def backward(_, gradient):
        return gradient


class SumOfGradients(torch.autograd.Function):
    """The value as it is, forward; the sum of the ranks' gradients, backward."""

    @staticmethod
    def forward(_, value):
        return value

    @staticmethod
    def backward(_, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class TensorBlock(torch.nn.Module):
    """A pair of layers of which each rank holds a part: columns of the first, rows of the second."""

    def __init__(self, width: int) -> None:
        super().__init__()
        part = 4 * width // dist.get_world_size()
        self.up = torch.nn.Linear(width, part)
        self.down = torch.nn.Linear(part, width, bias=False)

    def forward(self, value):
        return value + Sum.apply(self.down(torch.relu(self.up(SumOfGradients.apply(value)))))


def layers(width: int, depth: int) -> torch.nn.Sequential:
    """A plain network."""
    pairs = [(torch.nn.Linear(width, width), torch.nn.ReLU()) for _ in range(depth)]
    return torch.nn.Sequential(*(layer for pair in pairs for layer in pair))


class Program:
    """What one rank does in a step; `more` is the work that a straggler does besides."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.width, self.rows = (2048, 512) if device.type == "cuda" else (128, 16)
        self.model = self.build().to(device)
        self.split()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.extra = torch.ones(self.width, self.width, device=device)

    def build(self) -> torch.nn.Module:
        return layers(self.width, 6)

    def split(self) -> None:
        """Share the model out."""

    def more(self, wanted: bool) -> None:
        for _ in range(30 if wanted else 0):
            self.extra = self.extra @ self.extra * 1e-3

    def step(self, batch: torch.Tensor, slow: bool) -> None:
        loss = self.model(batch).square().mean()
        self.more(slow)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


class FullySharded(Program):
    """Each rank holds a part of every layer and gathers it when it is used."""

    def split(self) -> None:
        from torch.distributed.fsdp import fully_shard

        for layer in self.model:
            if any(True for _ in layer.parameters()):
                fully_shard(layer)
        fully_shard(self.model)


class TensorParallel(Program):
    """All ranks work on one batch, each with its part of every layer."""

    def build(self) -> torch.nn.Module:
        return torch.nn.Sequential(*(TensorBlock(self.width) for _ in range(4)))


class Pipeline(Program):
    """Each rank holds some layers and passes micro-batches on: all forward, then all backward."""

    MICRO = 4

    def step(self, batch: torch.Tensor, slow: bool) -> None:
        rank, last = dist.get_rank(), dist.get_world_size() - 1
        kept = []
        for part in batch.chunk(self.MICRO):
            value = part.clone()
            if rank:
                dist.recv(value, rank - 1)
                value.requires_grad_()
            out = self.model(value)
            self.more(slow)
            if rank < last:
                dist.send(out.detach(), rank + 1)
            kept.append((value, out))
        for value, out in kept:
            if rank < last:
                gradient = torch.empty_like(out)
                dist.recv(gradient, rank + 1)
                out.backward(gradient)
            else:
                out.square().mean().backward()
            if rank:
                dist.send(value.grad, rank - 1)
        self.optimizer.step()
        self.optimizer.zero_grad()


PROGRAMS = {"fsdp": FullySharded, "tensor": TensorParallel, "pipeline": Pipeline}


def load_batch(late: bool, program: Program) -> torch.Tensor:
    """A batch; late where the loader is the fault."""
    with annotate("load_batch"):
        if late:
            time.sleep(0.02)
        return torch.ones(program.rows, program.width, device=program.device)


def read_shard() -> None:
    """Where the rank that hangs is."""
    time.sleep(600)


def train(arguments: argparse.Namespace, program: Program) -> None:
    guilty = dist.get_rank() == arguments.rank
    for number in range(arguments.steps):
        batch = load_batch(guilty and arguments.fault == "loader", program)
        if guilty and number == 20 and arguments.fault == "hang":
            read_shard()
        program.step(batch, guilty and arguments.fault == "straggler" and number >= 15)
        if number % 10 == 9 and program.device.type == "cuda":
            torch.cuda.synchronize()
        step()


def main() -> None:
    """One rank."""
    parser = argparse.ArgumentParser()
    parser.add_argument("layout", choices=PROGRAMS)
    parser.add_argument("fault", choices=("even", "straggler", "loader", "hang"))
    parser.add_argument("--rank", type=int, default=1)
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    device = torch.device("cpu")
    if found := torch.cuda.device_count():
        if found < int(os.environ["LOCAL_WORLD_SIZE"]):
            os.environ["NCCL_HOSTID"] = f"rank{os.environ['RANK']}"
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % found)
        torch.cuda.set_device(device)
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=8))
    train(arguments, PROGRAMS[arguments.layout](device))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
