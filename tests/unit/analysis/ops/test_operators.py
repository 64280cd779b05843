"""`stats ops`: whose kernel is whose, what counts once, rates and roofs."""

import pytest

from tests.unit.analysis.conftest import EPOCH, device
from tests.unit.analysis.ops.calls import FP32
from tests.unit.analysis.ops.programs import LINEAR_BYTES, LINEAR_FLOPS, Program, linear
from warpsight.analysis.ops.operators import operators
from warpsight.errors import UsageError
from warpsight.model.selection import Rows


def rows(trace, by="name", chosen=None):
    found = operators(trace, chosen or Rows(), by)
    return {row["family" if by == "family" else "name"]: row for row in found.tables["ops"].to_pylist()}


def texts(trace, chosen=None):
    return " ".join(finding.text for finding in operators(trace, chosen or Rows()).findings)


@pytest.fixture
def program():
    return Program()


def test_a_kernel_belongs_to_the_innermost_operator(build, program):
    linear(program, 0)
    program.kernel(45, 7)  # in linear, after addmm
    program.kernel(60, 3)  # in none
    found = rows(program.built(build))
    outer, inner = found["aten::linear"], found["aten::addmm"]
    assert (outer["device_own"], outer["device_total"], outer["kernels"]) == (7, 107, 1)
    assert (inner["device_own"], inner["device_total"], inner["kernels"]) == (100, 100, 1)
    assert (outer["host"], outer["host_self"], inner["host"], inner["host_self"]) == (50, 20, 30, 30)
    assert inner["share"] == pytest.approx(100 / 110 * 100)
    assert "1 kernel, copy or set (3 ns) was launched outside any operator" in texts(program.built(build))


def test_a_linear_and_its_addmm_count_once(build, program):
    for start in (0, 100, 200):
        linear(program, start)
    trace = program.built(build)
    found = rows(trace)
    assert (found["aten::linear"]["counted"], found["aten::addmm"]["counted"]) == (0, 3)
    assert found["aten::linear"]["flops"] == found["aten::addmm"]["flops"] == 3 * LINEAR_FLOPS
    assert found["aten::addmm"]["bytes"] == 3 * LINEAR_BYTES
    (finding,) = (f for f in operators(trace).findings if "flops" in f.values)
    assert (finding.values["flops"], finding.values["time"]) == (3 * LINEAR_FLOPS, 300)


def test_rates_and_shares_of_the_peaks(build, program):
    linear(program, 0, length=50)
    found = rows(program.built(build))["aten::addmm"]
    assert found["flops_per_s"] == pytest.approx(LINEAR_FLOPS / 50e-9)
    assert found["bytes_per_s"] == pytest.approx(LINEAR_BYTES / 50e-9)
    assert found["intensity"] == pytest.approx(LINEAR_FLOPS / LINEAR_BYTES)
    # An H200: 989.4 TFLOP/s of bf16, 4.8 TB/s
    assert found["compute_share"] == pytest.approx(LINEAR_FLOPS / 50e-9 / 989.4e12 * 100)
    assert found["memory_share"] == pytest.approx(LINEAR_BYTES / 50e-9 / 4.8e12 * 100)
    assert found["bound"] == "memory"


def test_a_large_product_is_bound_by_compute(build, program):
    program.op("aten::mm", 0, 50, ([4096, 4096], [4096, 4096]))
    program.kernel(20, 200_000)
    assert rows(program.built(build))["aten::mm"]["bound"] == "compute"


@pytest.mark.parametrize(
    ("kernel", "rate"),
    [
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n", 494.7e12),
        ("cutlass_80_tensorop_s1688gemm_128x128", 494.7e12),
        ("ampere_sgemm_128x64_tn", 66.9e12),
        ("mystery_gemm", None),
    ],
)
def test_the_kernel_tells_the_rate_of_floats(build, program, kernel, rate):
    program.op("aten::mm", 0, 50, ([64, 32], [32, 16]), dtype=FP32)
    program.kernel(20, 100, kernel)
    found = rows(program.built(build))["aten::mm"]
    share = None if rate is None else pytest.approx(2 * 64 * 32 * 16 / 100e-9 / rate * 100)
    assert found["compute_share"] == share
    assert found["memory_share"] is not None


def test_an_unknown_device_has_no_shares(build, program):
    program.rows["device"] = [device(0) | {"name": "Graphics Device"}]
    linear(program, 0)
    trace = program.built(build)
    found = rows(trace)["aten::addmm"]
    assert (found["compute_share"], found["memory_share"], found["bound"]) == (None, None, None)
    assert found["flops_per_s"] is not None
    assert "the peaks of Graphics Device are not known" in texts(trace)


def test_the_device_row_tells_its_own_bandwidth(build, program):
    program.rows["device"] = [device(0) | {"name": "Graphics Device", "memory_bandwidth": 1_000_000_000_000}]
    linear(program, 0)
    found = rows(program.built(build))["aten::addmm"]
    assert found["memory_share"] == pytest.approx(LINEAR_BYTES / 100e-9 / 1e12 * 100)
    assert found["compute_share"] is None


def test_an_operator_without_a_model_is_unknown_not_zero(build, program):
    program.op("mylib::fused", 0, 50, ([64, 32],))
    program.kernel(20, 100)
    trace = program.built(build)
    found = rows(trace)["mylib::fused"]
    assert (found["model"], found["flops"], found["bytes"], found["flops_per_s"]) == (
        "unknown",
        None,
        None,
        None,
    )
    assert "mylib::fused (100 ns: there is no model of the operator)" in texts(trace)


def test_an_operator_around_others_has_their_sums(build, program):
    program.op("AddmmBackward0", 0, 200)
    linear(program, 10)
    linear(program, 100, length=60)
    found = rows(program.built(build))["AddmmBackward0"]
    assert (found["model"], found["flops"], found["counted"]) == ("children", 2 * LINEAR_FLOPS, 0)
    assert found["flops_per_s"] == pytest.approx(2 * LINEAR_FLOPS / 160e-9)


SHAPE = [1, 8, 64, 32]
ATTENTION = {"values": {4: "0.", 5: "False", 7: "False"}}


def test_an_unknown_backend_of_attention_is_judged_by_the_operator_around_it(build, program):
    program.op("aten::scaled_dot_product_attention", 0, 100, (SHAPE, SHAPE, SHAPE, *[None] * 5), **ATTENTION)
    program.op("aten::contiguous", 5, 15, (SHAPE, None), values={1: "0"})
    program.op("aten::copy_", 6, 14, (SHAPE, SHAPE, None), values={2: "False"})
    program.kernel(8, 10, "copy")
    program.op("vendor::attention", 20, 90, (SHAPE, SHAPE, SHAPE))
    program.kernel(30, 90, "attention")
    found = rows(program.built(build))
    counted = {name: row["counted"] for name, row in found.items()}
    assert counted == {
        "aten::scaled_dot_product_attention": 1,
        "aten::contiguous": 0,
        "aten::copy_": 0,
        "vendor::attention": 0,
    }
    # 8 heads · 64² pairs · 2 · 64, in 100 ns with the copy
    assert found["aten::scaled_dot_product_attention"]["flops_per_s"] == pytest.approx(
        8 * 4096 * 128 / 100e-9
    )


def test_attention_made_of_products_counts_its_products(build, program):
    program.op("aten::scaled_dot_product_attention", 0, 300, (SHAPE, SHAPE, SHAPE, *[None] * 5), **ATTENTION)
    for start in (10, 100):
        program.op("aten::bmm", start, start + 50, ([8, 64, 32], [8, 32, 64]))
        program.kernel(start + 5, 100)
    found = rows(program.built(build))
    assert (found["aten::scaled_dot_product_attention"]["counted"], found["aten::bmm"]["counted"]) == (0, 2)


def test_what_an_operator_calls_for_its_own_work_counts_with_it(build, program):
    shapes = ([2, 4, 8, 8], [2, 3, 8, 8], [4, 3, 3, 3], *[None] * 8)
    values = {
        4: "[1, 1]",
        5: "[1, 1]",
        6: "[1, 1]",
        7: "False",
        8: "[0, 0]",
        9: "1",
        10: "[True, True, True]",
    }
    program.op("aten::convolution_backward", 0, 100, shapes, values=values)
    program.kernel(10, 500, "dgrad")
    program.op("aten::sum", 50, 80, ([2, 4, 8, 8], None, None, None), values={1: "[0, 2, 3]", 2: "False"})
    program.kernel(60, 100, "reduce")
    found = rows(program.built(build))
    forward = 512 * 2 * 27  # the bias is summed by aten::sum, and part of the convolution's model
    assert found["aten::convolution_backward"]["flops"] == 2 * forward + 512
    assert (found["aten::convolution_backward"]["counted"], found["aten::sum"]["counted"]) == (1, 0)
    assert found["aten::convolution_backward"]["flops_per_s"] == pytest.approx((2 * forward + 512) / 600e-9)


def test_an_operator_inside_its_own_kind_counts_once(build, program):
    program.op("outer::op", 0, 100)
    program.op("outer::op", 20, 60)
    program.kernel(30, 40)
    found = rows(program.built(build))["outer::op"]
    assert (found["calls"], found["host"], found["host_self"], found["device_total"]) == (2, 100, 100, 40)


def test_operators_of_two_threads_do_not_contain_each_other(build, program):
    program.op("a", 0, 100, thread=1)
    program.op("b", 10, 50, thread=2)
    program.kernel(20, 30, thread=2)
    found = rows(program.built(build))
    assert (found["a"]["device_total"], found["b"]["device_total"]) == (0, 30)
    assert found["a"]["host_self"] == 100


def test_a_window_of_time_chooses_operators_by_their_begin(build, program):
    for start in (0, 100, 200):
        linear(program, start)
    found = rows(program.built(build), chosen=Rows(begin=EPOCH + 100, end=EPOCH + 200))
    assert {(row["calls"], row["device_total"]) for row in found.values()} == {(1, 100)}
    assert found["aten::addmm"]["share"] == 100


def test_a_pattern_chooses_names(build, program):
    linear(program, 0)
    assert set(rows(program.built(build), chosen=Rows(name="addmm"))) == {"aten::addmm"}


def test_by_shapes_tells_calls_apart(build, program):
    program.op("aten::mm", 0, 50, ([64, 32], [32, 16]))
    program.op("aten::mm", 60, 90, ([64, 32], [32, 16]))
    program.op("aten::mm", 100, 150, ([8, 32], [32, 16]), dtype=FP32)
    found = operators(program.built(build), Rows(), "shapes").tables["ops"].to_pylist()
    assert {(row["shapes"], row["dtypes"], row["calls"]) for row in found} == {
        ("64×32, 32×16", "bf16", 2),
        ("8×32, 32×16", "fp32", 1),
    }


def test_by_family(build, program):
    linear(program, 0)
    program.op("aten::mm", 60, 90, ([64, 32], [32, 16]))
    program.kernel(70, 10)
    found = rows(program.built(build), "family")
    assert (found["gemm"]["device_own"], found["gemm"]["calls"]) == (110, 3)


def test_a_grouping_that_does_not_exist_is_refused(build, program):
    with pytest.raises(UsageError, match="no grouping 'stream' of operators"):
        operators(program.built(build), by="stream")


def test_without_shapes_the_result_says_so(build, program):
    program.op("aten::mm", 0, 50)
    program.kernel(10, 20)
    trace = program.built(build)
    assert rows(trace)["aten::mm"]["model"] == "unknown"
    assert "profile with record_shapes=True" in texts(trace)


def test_without_operators_the_result_says_so(build):
    found = operators(build())
    assert not len(found.tables["ops"])
    assert "has no operators" in found.findings[0].text
