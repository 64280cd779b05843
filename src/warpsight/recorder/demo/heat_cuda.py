"""Heat spreading over a plate, and a small neural network fitted to it, on an NVIDIA GPU with PyTorch or CuPy."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import Any

import warpsight as ws

SIZE, STEPS, REPORT_EVERY = 1024, 300, 50


def heat(module: ModuleType, plate: Any) -> Any:
    """Let heat spread; works on arrays of PyTorch and CuPy alike."""
    with ws.annotate("simulate"):
        for step in range(1, STEPS + 1):
            inner = plate[1:-1, 1:-1]
            around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
            change = 0.2 * (around - 4 * inner)
            plate[1:-1, 1:-1] = inner + change
            if step % REPORT_EVERY == 0:
                with ws.annotate("report", step=step):
                    ws.counter("largest change", float(module.abs(change).max()), "K")
    return plate


def fit(torch: ModuleType, plate: Any) -> None:
    """Fit a small network to the plate: backward kernels, an optimiser, a matrix multiplication on tensor cores."""
    rows = plate / plate.max().clamp(min=1e-6)
    network = torch.nn.Sequential(
        torch.nn.Linear(SIZE, 512), torch.nn.GELU(), torch.nn.Linear(512, SIZE)
    ).cuda()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    with ws.annotate("fit"):
        for _ in range(50):
            optimizer.zero_grad(set_to_none=True)
            loss = torch.nn.functional.mse_loss(network(rows), rows)
            loss.backward()
            optimizer.step()
            ws.counter("loss", float(loss.detach()))


def main() -> None:
    """Run to the end and print the result."""
    if importlib.util.find_spec("torch"):
        torch = importlib.import_module("torch")
        if torch.cuda.is_available():
            print(f"heat on {torch.cuda.get_device_name()} with PyTorch {torch.__version__}")
            plate = torch.zeros(SIZE, SIZE, device="cuda")
            plate[0, SIZE // 2] = 1000.0
            fit(torch, heat(torch, plate))
            print(f"{float(plate.sum()):.0f} K in all")
            return
    cupy = importlib.import_module("cupy")
    print(f"heat on device 0 with CuPy {cupy.__version__}")
    plate = cupy.zeros((SIZE, SIZE), cupy.float32)
    plate[0, SIZE // 2] = 1000.0
    print(f"{float(heat(cupy, plate).sum()):.0f} K in all")


if __name__ == "__main__":
    main()
