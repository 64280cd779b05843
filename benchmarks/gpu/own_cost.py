"""What recording costs, measured and as warpsight states it, side by side.

usage: own_cost.py [--rounds 3] [--seconds 3] [--workloads add,decode8,train,jax] [--keep FOLDER] [--set NAME=VALUE ...]

The PyTorch workloads run bare and recorded in turn inside one process, in blocks of `--seconds`; a JAX loop decides at its start
whether to emit ranges, so whole processes run in turn: bare, recorded, recorded, bare. Printed for each workload, one JSON line:
by how much recording made a step longer, by its mean time (`total`) and by the lower quartile of its times (`p25`), and
`stated`, what :func:`warpsight.analysis.account.own_cost` says of each recording.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Blocks of 1,000 steps.
JAX_BLOCKS = 40


def decode8() -> Callable[[], None]:
    """Greedy decoding of 8 tokens at batch 1."""
    import torch
    from torch_workloads import llama

    model = llama().eval()
    prompt = torch.randint(0, 32000, (1, 32), device="cuda")

    @torch.no_grad()
    def step() -> None:
        model.generate(prompt, max_new_tokens=8, min_new_tokens=8, do_sample=False, pad_token_id=0)

    return step


def train() -> Callable[[], None]:
    """One training step of 8 x 512 tokens."""
    import torch
    from torch_workloads import llama

    model = llama().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(0, 32000, (8, 512), device="cuda")

    def step() -> None:
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def add() -> Callable[[], None]:
    """5,000 in-place additions of a small tensor: bound by launches."""
    import torch

    x = torch.zeros(256, device="cuda")

    def step() -> None:
        for _ in range(5000):
            x.add_(1.0)

    return step


WORKLOADS = {"add": add, "decode8": decode8, "train": train}


def chunks(step: Callable[[], None], seconds: float) -> list[float]:
    """Seconds of each step in a block; the first does not count."""
    import torch

    step()
    torch.cuda.synchronize()
    times = [time.perf_counter()]
    while times[-1] - times[0] < seconds:
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter())
    return [later - earlier for earlier, later in itertools.pairwise(times)]


def stated(path: str) -> dict[str, Any]:
    """What warpsight says of the cost of a recording."""
    import warpsight
    from warpsight.analysis.account.own_cost import own_cost

    with warpsight.open(path) as trace:
        said = own_cost(trace)
        return (said.as_dict() if said else {}) | {
            "overhead": trace.manifest.get("overhead"),
            "rows": {t: trace.count(t) for t in ("launch", "api", "kernel", "marker", "memcpy")},
        }


def in_turn(name: str, rounds: int, seconds: float, keep: Path | None, settings: dict[str, Any]) -> None:
    """Bare and recorded blocks of a PyTorch workload in turn, in this process."""
    import warpsight

    step = WORKLOADS[name]()
    for _ in range(4):
        chunks(step, 0.1)
    ratios: list[tuple[float, float]] = []
    said: list[dict[str, Any]] = []
    place = Path(tempfile.mkdtemp())
    for number in range(rounds):
        times: dict[str, list[float]] = {}
        path = str(place / f"{number}.warp")
        for arm in ("bare", "recorded") if number % 2 == 0 else ("recorded", "bare"):
            if arm == "bare":
                times[arm] = chunks(step, seconds)
            else:
                with warpsight.record(path, **settings):
                    times[arm] = chunks(step, seconds)
        ratios.append(longer(times["bare"], times["recorded"]))
        said.append(stated(path))
    if keep:
        with warpsight.record(str(keep / f"{name}.warp"), **settings):
            chunks(step, 0.7)
    shutil.rmtree(place)
    report(name, ratios, said)


def jax_loop() -> None:
    """A loop of a small jitted step; prints its seconds."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def step(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ w) * 0.5 + x

    x, w = jnp.ones((64, 64)), jnp.ones((64, 64)) * 0.01
    for _ in range(200):
        x = step(x, w)
    x.block_until_ready()
    times = [time.perf_counter()]
    for _ in range(JAX_BLOCKS):
        for _ in range(1000):
            x = step(x, w)
        x.block_until_ready()
        times.append(time.perf_counter())
    print(json.dumps([later - earlier for earlier, later in itertools.pairwise(times)]))


def jax_processes(rounds: int, keep: Path | None) -> None:
    """Whole processes of the JAX loop in turn."""
    place = Path(tempfile.mkdtemp())
    program = [sys.executable, __file__, "--jax-loop"]
    ratios: list[tuple[float, float]] = []
    said: list[dict[str, Any]] = []
    for number in range(rounds):
        times: dict[str, list[float]] = {"bare": [], "recorded": []}
        path = str(place / f"{number}.warp")
        for arm in ("bare", "recorded", "recorded", "bare"):
            record = [sys.executable, "-m", "warpsight", "record", "-q", "-f", "-o", path, "--"]
            command = program if arm == "bare" else [*record, *program]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ})
            times[arm] += json.loads(done.stdout.strip().splitlines()[-1])
        ratios.append(longer(times["bare"], times["recorded"]))
        said.append(stated(path))
    if keep:
        shutil.move(path, keep / "jax.warp")
    shutil.rmtree(place)
    report("jax", ratios, said)


def longer(bare: list[float], recorded: list[float]) -> tuple[float, float]:
    """By which part of the bare time the recorded steps take longer: by the mean, and by the lower quartile."""
    return (
        statistics.fmean(recorded) / statistics.fmean(bare) - 1,
        statistics.quantiles(recorded, n=4)[0] / statistics.quantiles(bare, n=4)[0] - 1,
    )


def report(name: str, ratios: list[tuple[float, float]], said: list[dict[str, Any]]) -> None:
    """One JSON line: of each figure the median over the rounds, the least and the most."""
    figures = {}
    for figure, found in zip(("total", "p25"), zip(*ratios, strict=True), strict=True):
        figures[figure] = [round(value, 4) for value in (statistics.median(found), min(found), max(found))]
    print(json.dumps({"workload": name, **figures, "stated": said}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--workloads", default="add,decode8,train,jax")
    parser.add_argument("--keep", type=Path, help="keep a short recording of each workload here")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="of warpsight.record"
    )
    parser.add_argument("--jax-loop", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.jax_loop:
        return jax_loop()
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    settings = dict(item.partition("=")[::2] for item in options.set)
    for name in options.workloads.split(","):
        if name == "jax":
            jax_processes(options.rounds, options.keep)
        else:
            in_turn(name, options.rounds, options.seconds, options.keep, settings)
    return None


if __name__ == "__main__":
    main()
