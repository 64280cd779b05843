"""Decode steps of a model of 16 layers: prints the median time of a step in µs.

`decode.py`: each step is one CUDA graph, timed on the GPU. `decode.py eager [COUNT]`: launch by launch, timed on the host.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import warpsight as ws

LAYERS, WIDTH, HEADS, CONTEXT, BATCH = 16, 1024, 16, 512, 4


class Layer(nn.Module):
    """Attention to a cache of keys and values, then a perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.register_buffer("cache", torch.randn(2, BATCH, HEADS, CONTEXT, WIDTH // HEADS))

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norms[0](x)).view(BATCH, 3, HEADS, 1, -1).unbind(1)
        self.cache[0].index_copy_(2, position, k)
        self.cache[1].index_copy_(2, position, v)
        attended = F.scaled_dot_product_attention(q, self.cache[0], self.cache[1])
        x = x + self.out(attended.reshape(BATCH, WIDTH))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


@torch.inference_mode()
def main() -> None:
    torch.manual_seed(1)
    layers = [Layer().cuda().bfloat16() for _ in range(LAYERS)]
    x = torch.randn(BATCH, WIDTH, device="cuda", dtype=torch.bfloat16)
    position = torch.zeros(1, dtype=torch.long, device="cuda")

    def step() -> None:
        y = x
        for layer in layers:
            y = layer(y, position)
        x.copy_(F.layer_norm(y, (WIDTH,)))
        position.add_(1)

    step()
    times = eager(step, int(sys.argv[2]) if sys.argv[2:] else 400) if sys.argv[1:] else graphed(step)
    print(f"{statistics.median(times):.2f}")


def graphed(step: Callable[[], None]) -> list[float]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    times = []
    for _ in range(200):
        ws.step()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(1000 * start.elapsed_time(end))
    return times


def eager(step: Callable[[], None], count: int) -> list[float]:
    times = []
    for _ in range(count):
        ws.step()
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(1e6 * (time.perf_counter() - start))
    return times


if __name__ == "__main__":
    main()
