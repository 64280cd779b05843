from warpsight.analysis.steps.phases import phases
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace

RANGES = (("train_step forward", 100, 300, 1), ("autograd::engine::evaluate_function: MmBackward0", 400, 200, 2),
          ("Optimizer.step#SGD.step", 700, 200, 1))  # fmt: skip
#: host time of the launch, thread, kernel, frames, expected phase
WORK = (
    (150, 1, "gemm", (), "forward"),
    (450, 2, "gemm", (), "backward"),
    (750, 1, "gemm", (), "optimiser"),
    (160, 1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", (), "communication"),
    (950, 1, "multi_tensor_apply_kernel", (), "optimiser"),
    (960, 3, "gemm", (), "backward"),
    (970, 1, "gemm", (("forward", "model.py"),), "forward"),
    (980, 1, "gemm", (("step", "torch/optim/sgd.py"),), "optimiser"),
    (990, 1, "gemm", (), "unknown"),
)


def test_each_sign_tells_its_phase(tmp_path):
    with TraceWriter(tmp_path / "t.warp") as writer:
        writer.add("thread", [{"thread": 3, "name": "pt_autograd_0", "process": 0}])
        for name, start, duration, thread in RANGES:
            writer.add("marker", [{"start": start, "duration": duration, "kind": "push/pop", "open": False, "thread": thread,
                                   "name_id": writer.name(name), "source": "nvtx", "process": 0}])  # fmt: skip
        for number, (host, thread, kernel, frames, _) in enumerate(WORK, 1):
            both = {"process": 0, "correlation": number, "name_id": writer.name(kernel)}
            stack = writer.stack([(f, file, 1, None, "python", None) for f, file in frames])
            writer.add(
                "launch",
                [
                    {
                        **both,
                        "start": host,
                        "duration": 1,
                        "function": "f",
                        "thread": thread,
                        "captured": False,
                    }
                ],
            )
            writer.add("kernel", [{**both, "start": 10_000 + 1000 * number, "duration": 2**number, "context": 1, "stream": 7,
                                   "device": 0, "graph_level": False, "stack": stack}])  # fmt: skip
    expected = {}
    for number, work in enumerate(WORK, 1):
        expected[work[-1]] = expected.get(work[-1], 0) + 2**number
    with open_trace(tmp_path / "t.warp") as trace:
        result = phases(trace)
    assert {r["phase"]: r["time"] for r in result.tables["phases"].to_pylist()} == expected
    assert sum(r["work"] for r in result.tables["signs"].to_pylist()) == len(WORK)
    assert "1 of 9" in result.findings[0].text
