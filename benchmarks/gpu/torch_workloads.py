"""PyTorch workloads for overhead measurements; prints one JSON line: seconds of each timed repetition per workload.

usage: torch_workloads.py [--workloads add,decode,graph,train] [--repetitions 3] [--peer PEER]

Every workload warms up with one full pass. PEER times it again inside another profiler (kineto_cuda, kineto_all,
kineto_stack, proton) or inside `warpsight.record` (ws), with the time stopping took and the time afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch


@cache
def llama() -> Any:
    """A 16-layer Llama-like model in bfloat16 on the GPU, where its weights are made, too; one for all workloads."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=16,
        num_attention_heads=16,
        num_key_value_heads=8,
        vocab_size=32000,
    )
    with torch.device("cuda"):
        return LlamaForCausalLM(config).to(torch.bfloat16)


def add() -> Callable[[], None]:
    """20,000 in-place additions of a small tensor: bound by launches."""
    x = torch.zeros(256, device="cuda")

    def step() -> None:
        for _ in range(20_000):
            x.add_(1.0)

    return step


def decode() -> Callable[[], None]:
    """Greedy decoding of 64 tokens at batch 1."""
    model = llama().eval()
    prompt = torch.randint(0, 32000, (1, 32), device="cuda")

    @torch.no_grad()
    def step() -> None:
        model.generate(prompt, max_new_tokens=64, min_new_tokens=64, do_sample=False, pad_token_id=0)

    return step


def graph() -> Callable[[], None]:
    """One token's forward pass captured in a CUDA graph, 300 replays."""
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
        for _ in range(300):
            captured.replay()

    return step


def train() -> Callable[[], None]:
    """Ten training steps of 8 x 512 tokens."""
    model = llama().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(0, 32000, (8, 512), device="cuda")

    def step() -> None:
        for _ in range(10):
            model(input_ids=tokens, labels=tokens).loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    return step


WORKLOADS = {"add": add, "decode": decode, "graph": graph, "train": train}


def timed(step: Callable[[], None]) -> float:
    """Seconds of one step with the device idle before and after."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return time.perf_counter() - start


@contextmanager
def peer_profiler(peer: str) -> Iterator[None]:
    """Record the block with another profiler."""
    folder = tempfile.mkdtemp()
    if peer == "ws":
        import warpsight

        with warpsight.record(os.path.join(folder, "run.warp")):
            yield
    elif peer == "proton":
        import triton.profiler as proton

        proton.start(os.path.join(folder, "proton"), context="python")
        yield
        proton.finalize()
    else:
        from torch.profiler import ProfilerActivity, profile

        activities = [ProfilerActivity.CUDA] + ([] if peer == "kineto_cuda" else [ProfilerActivity.CPU])
        with profile(activities=activities, with_stack=peer == "kineto_stack"):
            yield


def measure(name: str, repetitions: int, peer: str | None) -> dict[str, Any]:
    """Times of one workload, bare and, when asked, inside and after a peer."""
    step = WORKLOADS[name]()
    timed(step)
    result: dict[str, Any] = {"bare": [timed(step) for _ in range(repetitions)]}
    if peer:
        with peer_profiler(peer):
            timed(step)
            result["inside"] = [timed(step) for _ in range(repetitions)]
            stopping = time.perf_counter()
        result["stop"] = time.perf_counter() - stopping
        result["after"] = [timed(step) for _ in range(repetitions)]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workloads", default="add,decode,graph,train")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--peer", choices=["kineto_cuda", "kineto_all", "kineto_stack", "proton", "ws"])
    options = parser.parse_args()
    names = options.workloads.split(",")
    print(json.dumps({name: measure(name, options.repetitions, options.peer) for name in names}), flush=True)


if __name__ == "__main__":
    main()
