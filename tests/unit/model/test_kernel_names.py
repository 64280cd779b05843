"""Kernel names as people distinguish kernels."""

from __future__ import annotations

import pytest

from warpsight.model.naming.kernel_names import apart, family, short


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        # Engines: the functor is not part of the name, whatever it is.
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, "
         "at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)", "at::native::vectorized_elementwise_kernel<4>"),
        ("void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<X> >(int)",
         "at::native::elementwise_kernel<128, 4>"),
        ("void reduce_kernel<512,1, ReduceOp<float> >(ReduceOp<float>)", "reduce_kernel<512,1>"),
        ("void nms<(int)64, float>(float*)", "nms<(int)64>"),
        ("fill<256>(float*)", "fill<256>"),
        # Templates of types are kernels of their own for each.
        ("void softmax<float, 4>(float*)", "void softmax<float, 4>(float*)"),
        ("void softmax<c10::Half, 4>(c10::Half*)", "void softmax<c10::Half, 4>(c10::Half*)"),
        ("gemm", "gemm"),
        ("_Z3addPf", "_Z3addPf"),
        ("", ""),
        ("void scale<128u, float>(float*)", "void scale<128u, float>(float*)"),
    ],
)  # fmt: skip
def test_a_kernel_is_known_by_its_template_arguments_up_to_the_first_that_is_no_number(name, kernel):
    assert family(name) == kernel


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gemm(float*, float*)", "gemm"),
        ("void softmax<float, 4>(float*)", "softmax<float, 4>"),
        ("void (anonymous namespace)::softmax<float>(float*)", "(anonymous namespace)::softmax<float>"),
        ("void at::(anonymous namespace)::f<g(int)>(float*)", "at::(anonymous namespace)::f<g(int)>"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
        ("f<decltype(a->b)>(int)", "f<decltype(a->b)>"),
        ("gemm", "gemm"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_sentence_has_the_name_without_return_type_and_arguments(name, text):
    assert short(name) == text


@pytest.mark.parametrize(
    ("longest", "text"),
    [
        (28, "ns::f<decltype(a->b), ns::T>"),
        (24, "ns::f<decltype(a->b), T>"),
        (23, "…::f<decltype(a->b), T>"),
        (22, "…::f<decltype(a-…), …>"),
    ],
)
def test_an_arrow_ends_no_template_argument(longest, text):
    assert short("void ns::f<decltype(a->b), ns::T>(int)", longest) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("std::enable_if<!(false), void>::type gemv::kernel<int, float>(int*)", "gemv::kernel<int, float>"),
        ("unsigned int (anonymous namespace)::f<int>(int)", "(anonymous namespace)::f<int>"),
        ("cub::Sum operator()(int)", "operator()"),
        ("void f<int>(int*) [clone .kd]", "f<int>"),
        ("run(int)::{lambda(int)#1}::operator()(int) const", "run(int)::{lambda(int)#1}::operator()"),
        ("f32[5,1024]{1,0:T(8,128)} fusion", "f32[5,1024]{1,0:T(8,128)} fusion"),
        ("memcpy (HtoD) of weights", "memcpy (HtoD) of weights"),
    ],
)
def test_what_a_function_returns_is_not_in_its_name(name, text):
    assert short(name) == text


LONG = "void cub::V2::Onesweep<cub::V2::Policy<unsigned, cub::Id<int>, {0}>::P9, (bool)0, unsigned, cub::V2::Id, int, long>(T2*)"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("void f<at::detail::Adder<float>, at::native::Loader<1, at::detail::Layout>, 4u>(float*, at::Array<char*, 3>)",
         "f<Adder<float>, Loader<1, Layout>, 4u>"),
        (LONG.format(1), "cub::V2::Onesweep<Policy<…>::P9, (bool)0, unsigned, Id, int, long>"),
        (LONG.format(1).replace("Onesweep", "DeviceRadixSortOnesweepKernel"),
         "…::DeviceRadixSortOnesweepKernel<Policy<…>::P9, (bool)0, unsigned, …>"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_relu_f16_128x128_32x5_tn_align8>(Params)",
         "…::Kernel2<cutlass_80_tensorop_f16_s16816gemm_relu_f16_1…32x5_tn_align8>"),
        ("triton_red_fused__to_copy__unsafe_view_add_mean_mul_native_layer_norm_backward_pow_rsqrt_sum_17",
         "triton_red_fused__to_copy__unsafe_view_add_mean_mul_nati…ow_rsqrt_sum_17"),
    ],
)  # fmt: skip
def test_a_sentence_has_as_much_of_a_long_name_as_there_is_room_for(name, text):
    assert short(name) == text


@pytest.mark.parametrize("length", [71, 72, 73, 100, 5000])
def test_a_sentence_has_at_most_72_characters_of_it(length):
    assert len(short("k" * length)) == min(length, 72)
    assert len(short("void a::b::" + "k" * length + "<int, f<long, " + "x" * length + ">>(int)")) <= 72


def test_names_that_would_look_alike_show_where_they_differ():
    names = [f"Cijk_{'A' * 80}_MT{size}_{'B' * 30}_WG16_1" for size in ("64x64", "128x64", "128x32")]
    shown = apart([*names, "gemm(float*)"])
    assert shown.pop("gemm(float*)") == "gemm"
    assert len(set(map(short, names))) == 1
    assert all(len(text) <= 72 for text in shown.values())
    assert [name.split("_")[2] in text for name, text in shown.items()] == [True] * 3


def test_names_that_their_functions_tell_apart_lose_what_their_templates_were_given():
    base = "split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel"
    names = [f"void {base}_{part}_per_row_1<float, float, float, 2ul>(int)" for part in ("cta", "warp")]
    whole = [f"void {base}_{part}_per_row_1<{'T' * 99}>(int)" for part in ("cta_of_it", "warp_of_it")]
    for one in (*apart(names).values(), *apart(whole).values()):
        assert one.endswith(("_per_row_1<…>", "_per_row_1…")) and "<float" not in one and "TT" not in one
    assert len({*apart(names).values(), *apart(whole).values()}) == 4


def test_a_name_that_is_cut_at_its_end_says_so():
    names = [f"Cijk_{'A' * 80}_MT{size}_{'B' * 90}_WG16_1" for size in ("64x64", "128x64")]
    assert all(len(text) <= 72 and text.endswith("B…") for text in apart(names).values())


@pytest.mark.parametrize(
    ("name", "room", "text"),
    [
        ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)", 34,
         "…::multimem_all_reduce_kernel<…>"),
        ("void at::native::vectorized_elementwise_kernel<4, X>(int)", 40, "…::vectorized_elementwise_kernel<4, X>"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_tn_align8>(P)", 38,
         "…::Kernel2<cutlass_80_tensoro…align8>"),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x192x64_MI16x16x1_SN_WG16_16_1", 40,
         "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S…WG16_16_1"),
    ],
)  # fmt: skip
def test_a_column_has_the_functions_name_and_is_cut_once(name, room, text):
    shown = short(name, room)
    assert len(shown) <= room and shown.count("……") == 0
    assert shown.replace(" ", "") == text.replace(" ", "") or (shown[:20], shown[-6:]) == (
        text[:20],
        text[-6:],
    )


def test_template_arguments_are_split_at_commas_with_or_without_blanks_after_them() -> None:
    name = f"pack<{'a' * 30},{'b' * 30}, {'c' * 30}>::run"
    assert short(name, 72) == f"pack<{'a' * 30}, {'b' * 30}, …>"
    assert short("ns::pack<x::A,y::B>::run", 20) == "ns::pack<A, B>::run"
