"""What --pc-sampling costs a decode: recordings with and without it in turn, and how soon a planted hot line comes first.

usage: pc_sampling.py [--pairs 3] [--seconds 3] [--hertz on]

The workload is a 16-layer transformer at batch 1 in plain PyTorch, bound by launches, with column_walk.py in each layer.
Costs compare medians of ms a token; samples are of all multiprocessors.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

KERNEL = Path(__file__).with_name("column_walk.py")
WIDTH, HEADS, LAYERS, WORDS, INNER, TOKENS = 1024, 16, 16, 32_000, 2816, 32
SHAPES = {
    "q": (WIDTH, WIDTH),
    "k": (WIDTH, WIDTH),
    "v": (WIDTH, WIDTH),
    "o": (WIDTH, WIDTH),
    "gate": (INNER, WIDTH),
    "up": (INNER, WIDTH),
    "down": (WIDTH, INNER),
}


def prepare() -> Callable[[], float]:
    """A function that decodes a sequence of 32 tokens and gives its seconds a token."""
    import torch
    from column_walk import column_walk
    from torch.nn import functional

    torch.manual_seed(0)
    options: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    layers = [{name: torch.randn(*shape, **options) * 0.02 for name, shape in SHAPES.items()}
              for _ in range(LAYERS)]  # fmt: skip
    words = torch.randn(WORDS, WIDTH, **options) * 0.02
    sums = torch.empty(128 * 256, device="cuda")
    split = (1, 1, HEADS, WIDTH // HEADS)

    def norm(x: Any) -> Any:
        return x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5).to(x.dtype)

    def token(last: Any, cache: list[tuple[Any, Any]], at: int) -> Any:
        x = words[last].view(1, 1, WIDTH)
        for layer, (keys, values) in zip(layers, cache, strict=True):
            h = norm(x)
            q, k, v = (functional.linear(h, layer[name]).view(split).transpose(1, 2) for name in "qkv")
            keys[:, :, at : at + 1], values[:, :, at : at + 1] = k, v
            found = functional.scaled_dot_product_attention(q, keys[:, :, : at + 1], values[:, :, : at + 1])
            x = x + functional.linear(found.transpose(1, 2).reshape(1, 1, WIDTH), layer["o"])
            column_walk[(128,)](layer["gate"], sums)
            h = norm(x)
            gated = functional.silu(functional.linear(h, layer["gate"])) * functional.linear(h, layer["up"])
            x = x + functional.linear(gated, layer["down"])
        return functional.linear(norm(x), words).argmax().view(1)

    def sequence() -> float:
        shape = (1, HEADS, 2 * TOKENS, WIDTH // HEADS)
        cache = [(torch.zeros(shape, **options), torch.zeros(shape, **options)) for _ in range(LAYERS)]
        last = torch.zeros(1, dtype=torch.long, device="cuda")
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for at in range(TOKENS):
            last = token(last, cache, at)
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / TOKENS

    return torch.no_grad()(sequence)


def decode(seconds: float) -> list[float]:
    """Seconds a token of each sequence."""
    sequence = prepare()
    for _ in range(3):
        sequence()
    end, times = time.perf_counter() + seconds, []
    while time.perf_counter() < end:
        times.append(sequence())
    return times


def recorded(seconds: float, folder: str, *options: str) -> tuple[float, Path]:
    """Median ms a token under `warpsight record`, and the trace."""
    trace = Path(folder, "run.warp")
    command = [sys.executable, "-m", "warpsight", "record", "-q", "-f", "-o", str(trace), "--sample", "off", "--counters",
               "off", *options, "--", sys.executable, __file__, "--workload", str(seconds)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return 1e3 * statistics.median(json.loads(done.stdout.splitlines()[-1])), trace


def first_after(trace: Any) -> float | None:
    """Seconds from the start of the first window until the planted line is the hottest of the hottest kernel, and stays it."""
    from warpsight.model.selection import Rows
    from warpsight.sass.hotspots import hotspots

    planted = 1 + next(
        at for at, text in enumerate(KERNEL.read_text().splitlines()) if text.endswith("# planted")
    )
    windows = [row[0] for row in trace.sql("SELECT DISTINCT start FROM pc_window ORDER BY start").fetchall()]
    since = None
    for end in [*(windows[1 << k] for k in range(7) if 1 << k < len(windows)), windows[-1]]:
        kernels = hotspots(trace, Rows(end=end), ("line",), 1).kernels
        lines = kernels[0].levels.get("line", []) if kernels else []
        frames = lines[0].frames if lines else []
        right = any(frame.line == planted and Path(frame.file).name == KERNEL.name for frame in frames)
        since = (since or (end - windows[0]) / 1e9) if right else None
    return since


def main() -> None:
    """Run the pairs and print a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--hertz", default="on")
    parser.add_argument("--workload", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.workload:
        print(json.dumps(decode(given.workload)))
        return
    from warpsight.model import open as open_trace

    with tempfile.TemporaryDirectory() as folder:
        for pair in range(given.pairs):
            without, _ = recorded(given.seconds, folder)
            sampled, trace = recorded(given.seconds, folder, "--pc-sampling", given.hertz)
            with open_trace(trace) as opened:
                [(samples, span)] = opened.sql(
                    "SELECT sum(samples), max(start + duration) - min(start) FROM pc_window"
                ).fetchall()
                found = first_after(opened) if pair == given.pairs - 1 else None
                print(
                    f"{without:.3f} ms a token without, {sampled:.3f} with: {sampled / without:.3f}; "
                    f"{samples / span * 60e9:,.0f} samples a minute"
                    + (f"; planted line first after {found:.2f} s" if found else ""),
                    flush=True,
                )


if __name__ == "__main__":
    main()
