import itertools

import numpy as np
import pytest

from warpsight.analysis.diff import roles, sequence, statistics
from warpsight.analysis.diff.compare import compare
from warpsight.model import TraceWriter
from warpsight.model import open as open_trace


def permutation_p(one, other):
    """Share of all divisions of the values whose U is as far from its middle as the observed one."""

    def u(a, b):
        return sum((x > y) + (x == y) / 2 for x in a for y in b)

    values = [*one, *other]
    observed = abs(u(one, other) - len(one) * len(other) / 2)
    far = [
        abs(u([values[i] for i in chosen], [values[i] for i in range(len(values)) if i not in chosen])
            - len(one) * len(other) / 2) >= observed - 1e-9
        for chosen in itertools.combinations(range(len(values)), len(one))
    ]  # fmt: skip
    return sum(far) / len(far)


@pytest.mark.parametrize("seed", range(6))
def test_small_samples_are_tested_by_all_permutations(seed):
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, 8, 5).astype(float), rng.integers(2, 10, 4).astype(float)
    assert statistics.mann_whitney(one, other) == pytest.approx(permutation_p(one, other))


def test_large_samples_reject_as_often_as_the_level_says():
    rng = np.random.default_rng(0)
    same = [statistics.mann_whitney(rng.exponential(size=30), rng.exponential(size=30)) for _ in range(600)]
    assert 0.02 < np.mean(np.array(same) < 0.05) < 0.085
    shifted = [statistics.mann_whitney(rng.normal(0, 1, 30), rng.normal(1.5, 1, 30)) for _ in range(100)]
    assert np.mean(np.array(shifted) < 0.05) > 0.98


def test_adjusted_p_values_follow_the_definition():
    p = np.array([0.01, 0.04, 0.03, 0.5])
    expected = [min(1, min(q * 4 / (np.sum(p <= q)) for q in p if q >= one)) for one in p]
    assert statistics.adjusted(p) == pytest.approx(expected)


def test_the_interval_holds_the_true_ratio():
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(60):
        low, high = statistics.ratio_interval(rng.normal(100, 5, 40), rng.normal(110, 5, 40))
        inside += low <= 1.1 <= high
    assert inside >= 52


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "matrix product"),
        ("Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT256x128x64", "matrix product"),
        ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", "matrix product"),
        ("attn_fwd", "attention"),
        ("void pytorch_flash::flash_fwd_kernel<T>(Flash_fwd_params)", "attention"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "communication"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >",
            "elementwise",
        ),
        (
            "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda()::{lambda()#1}>",
            "copy and layout",
        ),
        ("void cunn_SoftMaxForward<4, float, float>", "softmax"),
        ("my_own_thing", "other"),
    ],
)
def test_roles(name, expected):
    assert roles.role(name) == expected


def write(
    path,
    factor=1.0,
    seed=0,
    names=("gemm_a", "softmax_b", "add_functor"),
    extra=None,
    turns=40,
    stack="layer",
):
    """A loop of three kernels per turn of 100 µs with 2 % noise; the first kernel takes `factor` times as long."""
    rng = np.random.default_rng(seed)
    with TraceWriter(path) as writer:
        ids = [writer.name(name) for name in names]
        clock, rows, markers = 1_000_000, [], []
        one = writer.stack(
            [("main", "train.py", 5, None, "python", None), (stack, "model.py", 9, None, "python", None)]
        )
        for turn in range(turns):
            markers.append({"start": clock - 100, "duration": 90_000, "kind": "push/pop", "open": False, "thread": 1,
                            "name_id": writer.name(f"step {turn}"), "source": "nvtx", "process": 0})  # fmt: skip
            for place, name in enumerate([*ids, *([writer.name(extra)] if extra else [])]):
                duration = int(30_000 * (factor if place == 0 else 1) * (1 + rng.normal(0, 0.02)))
                rows.append({"start": clock, "duration": duration, "name_id": name, "context": 1, "stream": 7, "device": 0,
                             "process": 0, "graph_level": False, "stack": one})  # fmt: skip
                clock += duration + 1_000
            clock += 7_000
        writer.add("kernel", rows)
        writer.add("marker", markers)
    return open_trace(path)


def row(found, table, name):
    return next(
        r for r in found.result.tables[table].to_pylist() if name in (r.get("name"), r.get("measure"))
    )


def test_the_same_program_twice_is_the_same(tmp_path):
    with write(tmp_path / "a.warp", seed=1) as one, write(tmp_path / "b.warp", seed=2) as two:
        found = compare(one, two)
    assert found.verdict == "same"
    for table in ("summary", "kernel", "role", "stack"):
        assert {r["verdict"] for r in found.result.tables[table].to_pylist()} == {"same"}
    assert len(found.result.tables["sequence"]) == 0


def test_one_slower_kernel_is_found_and_the_others_are_the_same(tmp_path):
    with write(tmp_path / "a.warp", seed=1) as one, write(tmp_path / "b.warp", 1.2, seed=2) as two:
        found = compare(one, two)
        mean = [
            trace.sql("SELECT avg(duration) FROM kernel WHERE name = 'gemm_a'").fetchall()[0][0]
            for trace in (one, two)
        ]
    assert found.verdict == "slower"
    kernel = row(found, "kernel", "gemm_a")
    assert (kernel["before"], kernel["after"]) == pytest.approx(mean)
    assert kernel["verdict"] == "slower"
    assert row(found, "kernel", "softmax_b")["verdict"] == "same"
    assert row(found, "summary", "iteration")["verdict"] == "slower"


def test_added_kernels_and_moved_stacks_are_told(tmp_path):
    with (
        write(tmp_path / "a.warp") as one,
        write(tmp_path / "b.warp", extra="new_kernel", stack="block") as two,
    ):
        found = compare(one, two)
    assert row(found, "kernel", "new_kernel")["verdict"] == "new"
    assert row(found, "stack", "layer (model.py) ← main (train.py)")["verdict"] == "gone"
    (step,) = found.result.tables["sequence"].to_pylist()
    assert (step["change"], step["place"], step["what_after"]) == ("added", 3, "new_kernel")


def test_other_vendors_align_by_role(tmp_path):
    names = ("Cijk_Alik_MT128", "hip_softmax", "triton_poi_fused_add")
    with write(tmp_path / "a.warp") as one, write(tmp_path / "b.warp", names=names) as two:
        found = compare(one, two)
    assert found.verdict == "same"
    assert {r["name"]: r["verdict"] for r in found.result.tables["role"].to_pylist()} == {
        "matrix product": "same", "softmax": "same", "elementwise": "same"}  # fmt: skip
    pairs = {(r["before"], r["after"]) for r in found.result.tables["pairs"].to_pylist()}
    assert pairs == set(zip(("gemm_a", "softmax_b", "add_functor"), names, strict=True))


def test_without_iterations_nothing_is_called_noise(tmp_path):
    with write(tmp_path / "a.warp", turns=1) as one, write(tmp_path / "b.warp", turns=1, factor=3) as two:
        found = compare(one, two)
    assert found.verdict == "untested"
    assert "noise cannot be told" in found.headline


def test_alignment_turns_one_sequence_into_the_other():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        one, two = (["abc"[i] for i in rng.integers(0, 3, 30)] for _ in range(2))
        made = []
        for change, a, b, c, d in sequence.align(one, two):
            assert (change == "equal") == (one[a:b] == two[c:d])
            made += two[c:d]
        assert made == two
