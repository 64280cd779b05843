"""What findings of the account save: the recording re-timed without their cause."""

from tests.unit.simulate.test_what_ifs import STEP, STEPS, US, Recorder
from warpsight.analysis.rules.verdict import verdict
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace


def findings(tmp_path, steps):
    with TraceWriter(tmp_path / "t.warp") as writer:
        steps(writer)
    with open_trace(tmp_path / "t.warp") as trace:
        return {(one.kind, one.name): one for one in verdict(trace).findings if one.kind is not None}


def test_a_finding_has_a_share_and_a_saving(tmp_path):
    found = findings(tmp_path, Recorder().steps)
    gelu = found["compute", "second_gelu"]
    assert gelu.share_ns == STEPS * 50 * US
    assert gelu.saves_ns == STEPS * 50 * US
    host = next(one for (kind, _), one in found.items() if kind == "host")
    assert host.saves_ns is not None
    assert host.saves_ns <= STEPS * STEP
    assert "re-timed" in host.evidence[-1]


def test_kernels_that_the_host_cannot_keep_up_with_save_nothing(tmp_path):
    """Launches every 50 µs, kernels of 40 µs: without the kernels the host takes as long."""

    def steps(writer):
        recorder = Recorder()
        name = writer.name("small_kernel")
        for _ in range(50):
            recorder.kernel(name, 40 * US)
            recorder.clock += 45 * US
        for table, rows in recorder.rows.items():
            writer.add(table, rows)

    kernel = findings(tmp_path, steps)["compute", "small_kernel"]
    assert kernel.share_ns == 50 * 40 * US
    assert kernel.saves_ns <= 40 * US  # the last one
