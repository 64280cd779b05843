"""Names of device functions as people read them."""

from __future__ import annotations

import pytest

from warpsight.device_code import demangle

LAMBDA = (
    "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIZZZNS0_23direct_copy_kernel_cuda"
    "ERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE5_clEvEUlfE_EEvS4_RKT_EUliE_EEviT1_"
)

SHORT = {
    "vectorAdd(float const*, float const*, float*, int)": "vectorAdd",
    (
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, at::deta"
        "il::Array<char*, 1> >(int, at::native::FillFunctor<float>, at::detail::Array<char*, 1>)"
    ): "at::native::vectorized_elementwise_kernel",
    (
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 8, true, false>(floa"
        "t*, float const*, int)"
    ): "(anonymous namespace)::softmax_warp_forward",
    (
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous namespa"
        "ce)::OpaqueType<4u>, unsigned int, 3>(at::native::(anonymous namespace)::OpaqueType<4u>*)"
    ): "at::native::(anonymous namespace)::CatArrayBatchedCopy",
    (
        "void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_bf16_64x64_32x6_tn_align8>(cutlass_80"
        "_tensorop::Params)"
    ): "cutlass::Kernel2",
    (
        "void cub::CUB_200200_900_NS::DeviceScanKernel<cub::Policy<int>, int const*, int*, cuda::st"
        "d::plus<void> >(int const*, int)"
    ): "cub::CUB_200200_900_NS::DeviceScanKernel",
    "bool operator< <int>(Foo<int> const&, Foo<int> const&)": "operator<",
    "Matrix::operator()(int, int) const": "Matrix::operator()",
    "std::vector<int>::operator->()": "std::vector::operator->",
    "A& operator<<<int>(A&, int)": "operator<<",
    "main::{lambda(int)#1}::operator()(int) const": "main::{lambda#1}::operator()",
    "void f<(a > b)>(int (*)(int))": "f",
    "std::enable_if<(4>3), void>::type g<4>(int)": "g",
    "int A::operator int<T>() const": "A::operator int",
    "void kernel(float*) [clone .constprop.0]": "kernel",
    "void ns::f<a->b, int>(int)": "ns::f",
    "int &ns::f(int)": "ns::f",
    "int const *ns::g<int>(int)": "ns::g",
    "main::{lambda(int)#1}::operator()(int) const::{lambda(float)#2}::f()": "main::{lambda#1}::operator()::{lambda#2}::f",
    "triton_poi_fused_add_0": "triton_poi_fused_add_0",
    "ampere_sgemm_32x32_sliced1x4_tn": "ampere_sgemm_32x32_sliced1x4_tn",
    "Memcpy HtoD (Pageable -> Device)": "Memcpy HtoD (Pageable -> Device)",
    "epoch 3 (warm-up)": "epoch 3 (warm-up)",
    "": "",
}


@pytest.mark.parametrize("text", SHORT, ids=lambda text: text[:40] or "empty")
def test_short_names(text: str) -> None:
    assert demangle.short(text) == SHORT[text]


@pytest.mark.skipif(demangle._library() is None, reason="no C++ runtime library on this machine")
def test_mangled_names_become_readable() -> None:
    assert demangle.demangle("_Z9vectorAddPKfS0_Pfi") == "vectorAdd(float const*, float const*, float*, int)"
    readable = demangle.demangle(LAMBDA)
    assert readable.startswith("void at::native::elementwise_kernel<128, 2, ")
    assert demangle.short(readable) == "at::native::elementwise_kernel"


@pytest.mark.skipif(demangle._library() is None, reason="no C++ runtime library on this machine")
def test_names_up_to_a_length_become_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demangle, "MAXIMUM_MANGLED", 7)
    assert demangle.demangle("_Z3addv") == "add()"
    assert demangle.demangle("_Z4add2v") == "_Z4add2v"


def test_without_a_runtime_library_names_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demangle, "_library", lambda: None)
    assert demangle.demangle("_Z1fv") == "_Z1fv"


@pytest.mark.parametrize(
    "name", ["_RNvCs1234_7mycrate3foo", "main", "_Zinvalid", "_Z" + "1x" * 20000, "ä" * 300, "_Zä"]
)
def test_other_names_are_left_alone(name: str) -> None:
    assert demangle.demangle(name) == name


@pytest.mark.parametrize(
    "text", ["f<" * 3000, "((((", "a<b>>>>(", "}" * 50, "operator", "x::operator<", "{lambda(", "f(" * 5000]
)
def test_broken_names_neither_raise_nor_vanish(text: str) -> None:
    assert demangle.short(text)


def test_a_name_of_ten_kilobytes_is_shortened() -> None:
    assert demangle.short("void ns::kernel<" + "std::tuple<int, float>, " * 500 + "int>(int)") == "ns::kernel"


def test_half_precision_of_new_compilers_becomes_readable_with_any_runtime() -> None:
    assert demangle.demangle("_ZN5aiter4normIDF16bDF16_Li256EEEvPT0_PT_S4_") == (
        "void aiter::norm<std::bfloat16_t, _Float16, 256>(_Float16*, std::bfloat16_t*, std::bfloat16_t*)"
    )
