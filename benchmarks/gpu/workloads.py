"""The programs whose recording is timed: each is a step that is run again and again.

usage: workloads.py NAME [--repetitions 3]: prints the seconds of each step as a JSON list. `jax` decides at its start whether to
emit ranges, so it is only run as a process of its own, in blocks of 1,000 steps.
"""

from __future__ import annotations

import argparse
import itertools
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

#: Blocks and layers of the JAX loop.
JAX_BLOCKS, JAX_LAYERS = 20, 19


@dataclass(frozen=True)
class Workload:
    """`step` issues work, `wait` returns when all of it is done."""

    step: Callable[[], None]
    wait: Callable[[], None]

    def timed(self) -> tuple[float, float, float]:
        """Seconds of one step: of the clock, of all threads' processors, and of this thread's."""
        self.wait()
        before = time.perf_counter(), time.process_time(), time.thread_time()
        self.step()
        self.wait()
        wall, cpu, thread = time.perf_counter(), time.process_time(), time.thread_time()
        return wall - before[0], cpu - before[1], thread - before[2]


def _torch(step: Callable[[], None]) -> Workload:
    import torch

    return Workload(step, torch.cuda.synchronize)


@cache
def llama() -> Any:
    """A 16-layer Llama-like model in bfloat16, made on the GPU; one for all workloads."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=1024, intermediate_size=2816, num_hidden_layers=16, num_attention_heads=16, num_key_value_heads=8,
        vocab_size=32000,
    )  # fmt: skip
    with torch.device("cuda"):
        return LlamaForCausalLM(config).to(torch.bfloat16)


def add(count: int = 5000) -> Workload:
    """In-place additions of a small tensor: bound by launches."""
    import torch

    x = torch.zeros(256, device="cuda")

    def step() -> None:
        for _ in range(count):
            x.add_(1.0)

    return _torch(step)


def products() -> Workload:
    """Four products of large matrices: bound by the GPU."""
    import torch

    x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    y = torch.empty_like(x)

    def step() -> None:
        for _ in range(4):
            torch.mm(x, x, out=y)

    return _torch(step)


def decode(tokens: int = 64) -> Workload:
    """Greedy decoding at batch 1."""
    import torch

    model = llama().eval()
    prompt = torch.randint(0, 32000, (1, 32), device="cuda")

    @torch.no_grad()
    def step() -> None:
        model.generate(prompt, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=0)

    return _torch(step)


def train() -> Workload:
    """One training step of 8 x 512 tokens."""
    import torch

    model = llama().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(0, 32000, (8, 512), device="cuda")

    def step() -> None:
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return _torch(step)


def graph() -> Workload:
    """One token's forward pass captured in a CUDA graph, replayed 50 times."""
    import torch

    model = llama().eval()
    token = torch.randint(0, 32000, (1, 1), device="cuda")
    side = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(side):
        for _ in range(3):
            model(input_ids=token, use_cache=False)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(captured):
        model(input_ids=token, use_cache=False)

    def step() -> None:
        for _ in range(50):
            captured.replay()

    return _torch(step)


def streams() -> Workload:
    """Four threads with a stream each, 250 small products and additions in each."""
    import torch

    def work(stream: Any, a: Any) -> None:
        with torch.cuda.stream(stream):
            for _ in range(250):
                a = torch.mm(a, a).add_(1.0)

    inputs = [(torch.cuda.Stream(), torch.zeros(64, 64, device="cuda")) for _ in range(4)]

    def step() -> None:
        threads = [threading.Thread(target=work, args=pair) for pair in inputs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return _torch(step)


def unet() -> Workload:
    """A forward pass of a small UNet, 16 x 16 at batch 1: many short kernels of different sorts."""
    import torch
    from torch import nn

    def block(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.SiLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.SiLU(),
        )  # fmt: skip

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = (32, 64, 128, 256)
            self.first = block(4, widths[0])
            self.down = nn.ModuleList(block(a, b) for a, b in itertools.pairwise(widths))
            self.up = nn.ModuleList(block(a + b, a) for a, b in itertools.pairwise(widths))
            self.last = nn.Conv2d(widths[0], 4, 1)

        def forward(self, x: Any) -> Any:
            kept = [self.first(x)]
            for down in self.down:
                kept.append(down(nn.functional.avg_pool2d(kept[-1], 2)))
            x = kept.pop()
            for up in reversed(self.up):
                x = up(torch.cat([nn.functional.interpolate(x, scale_factor=2.0), kept.pop()], 1))
            return self.last(x)

    torch.manual_seed(0)
    model = UNet().to("cuda").eval()
    x = torch.randn(1, 4, 16, 16, device="cuda")

    @torch.no_grad()
    def step() -> None:
        for _ in range(20):
            model(x)

    return _torch(step)


def cupy() -> Workload:
    """2,000 elementwise kernels and sums of a small CuPy array."""
    import cupy

    x = cupy.zeros(256, dtype=cupy.float32)

    def step() -> None:
        for _ in range(1000):
            x[:] = x + 1
            x.sum()

    return Workload(step, cupy.cuda.runtime.deviceSynchronize)


def jax() -> Workload:
    """1,000 jitted steps of 19 layers: 38 kernels that XLA replays from a command buffer."""
    import jax
    import jax.numpy as jnp

    weights = [jnp.ones((64, 64)) * 0.01 for _ in range(JAX_LAYERS)]

    @jax.jit
    def model(x: Any) -> Any:
        for w in weights:
            x = jnp.tanh(x @ w) * 0.5 + x
        return x

    held = [jnp.ones((64, 64))]

    def step() -> None:
        for _ in range(1000):
            held[0] = model(held[0])

    return Workload(step, lambda: held[0].block_until_ready())


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "add": add, "add500": lambda: add(500), "decode": decode, "decode8": lambda: decode(8), "decode2": lambda: decode(2),
    "train": train, "products": products, "graph": graph, "streams": streams, "unet": unet, "cupy": cupy, "jax": jax,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=WORKLOADS)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    workload = WORKLOADS[options.name]()
    workload.timed()
    print(json.dumps([workload.timed() for _ in range(options.repetitions)]))


if __name__ == "__main__":
    main()
