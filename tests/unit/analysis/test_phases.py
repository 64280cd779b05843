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
SIGNS = {
    ("forward", "range"): 1, ("forward", "stack"): 1, ("backward", "range"): 1, ("backward", "thread"): 1,
    ("optimiser", "range"): 1, ("optimiser", "kernel name"): 1, ("optimiser", "stack"): 1,
    ("communication", "kernel name"): 1, ("unknown", "none"): 1,
}  # fmt: skip


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
    signs = {(r["phase"], r["sign"]): r["work"] for r in result.tables["signs"].to_pylist()}
    assert signs == SIGNS
    assert "1 of 9" in result.findings[0].text


def test_shares_are_of_the_process_and_iterations_have_a_mean(tmp_path):
    """Two processes; in the first, ten steps of a forward pass of 300 ns and an optimizer step of 100 ns."""
    with TraceWriter(tmp_path / "t.warp") as writer:
        names = [writer.name(name) for name in ("gemm", "multi_tensor_apply_kernel")]
        number = 0
        for step in range(10):
            begin = step * 1_000
            writer.add("marker", [{"start": begin, "duration": 900, "kind": "push/pop", "open": False, "thread": 1,
                                   "name_id": writer.name(f"step {step} forward"), "source": "nvtx", "process": 0}])  # fmt: skip
            for offset, length, name in ((0, 300, 0), (400, 100, 1)):
                number += 1
                both = {"process": 0, "correlation": number}
                writer.add("launch", [{**both, "start": begin + offset, "duration": 1, "function": "f", "thread": 1,
                                       "captured": False}])  # fmt: skip
                writer.add("kernel", [{**both, "start": begin + offset + 50, "duration": length, "name_id": names[name],
                                       "context": 1, "stream": 7, "device": 0, "graph_level": False}])  # fmt: skip
        writer.add("kernel", [{"process": 1, "start": 50, "duration": 7, "name_id": names[1], "context": 1, "stream": 7,
                               "device": 0, "graph_level": False}])  # fmt: skip
    with open_trace(tmp_path / "t.warp") as trace:
        found = phases(trace).tables["phases"].to_pylist()
    assert {(r["process"], r["phase"]): (r["work"], r["time"], r["share"]) for r in found} == {
        (0, "forward"): (10, 3_000, 75.0), (0, "optimiser"): (10, 1_000, 25.0), (1, "optimiser"): (1, 7, 100.0),
    }  # fmt: skip
    assert {r["per_iteration"] for r in found if r["process"] == 0} == {300.0, 100.0}
    assert [r["per_iteration"] for r in found if r["process"] == 1] == [None]
