"""Data-parallel training with one planted fault, or collectives alone; start it with torchrun.

    torchrun --nproc-per-node 2 ranks.py even|straggler|loader|order|hang|collectives [--rank 1] [--steps 40]

`--rank` has the fault. straggler: from step 15 on it computes more. loader: its batches come late. order: at step 20 it gathers
where the others reduce. hang: at step 20 it never comes. Runs on NCCL where there are GPUs, else on gloo.
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


WIDTH, DEPTH, BATCH = 2048, 6, 256


def load_batch(late: bool, device: torch.device) -> torch.Tensor:
    """A batch; late where the loader is the fault."""
    with annotate("load_batch"):
        if late:
            time.sleep(0.02)
        return torch.ones(BATCH, WIDTH, device=device)


def read_shard() -> None:
    """Where the rank that hangs is."""
    time.sleep(600)


def train(arguments: argparse.Namespace, rank: int, device: torch.device) -> None:
    """Steps of a small network."""
    width = WIDTH if device.type == "cuda" else 128
    layers = [layer for _ in range(DEPTH) for layer in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers).to(device)
    wrapped = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=25)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=1e-3)
    guilty = rank == arguments.rank
    more = torch.ones(width, width, device=device)
    for number in range(arguments.steps):
        batch = load_batch(guilty and arguments.fault == "loader", device)[:, :width]
        if guilty and number == 20 and arguments.fault == "hang":
            read_shard()
        if number == 20 and arguments.fault == "order":
            small = torch.ones(1024, device=device)
            if guilty:
                dist.all_gather([torch.empty_like(small) for _ in range(dist.get_world_size())], small)
            else:
                dist.all_reduce(small)
        loss = wrapped(batch).square().mean()
        if guilty and arguments.fault == "straggler" and number >= 15:
            for _ in range(20):
                more = more @ more * 1e-3
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if number % 10 == 9:
            loss.item()
        step()


def collectives(rank: int, device: torch.device) -> None:
    """Each collective at three sizes, twenty times."""
    ranks = dist.get_world_size()
    for size in (1 << 14, 1 << 20, 1 << 25) if device.type == "cuda" else (1 << 10,):
        whole = torch.ones(size, device=device)
        part = torch.ones(size // ranks, device=device)
        for _ in range(20):
            dist.all_reduce(whole)
            dist.all_gather_into_tensor(whole, part)
            if device.type == "cuda":
                dist.reduce_scatter_tensor(part, whole)
                dist.all_to_all_single(torch.empty_like(whole), whole)
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    """One rank."""
    parser = argparse.ArgumentParser()
    parser.add_argument("fault", choices=("even", "straggler", "loader", "order", "hang", "collectives"))
    parser.add_argument("--rank", type=int, default=1)
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo", timeout=datetime.timedelta(seconds=8))
    rank = dist.get_rank()
    if arguments.fault == "collectives":
        collectives(rank, device)
    else:
        train(arguments, rank, device)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
