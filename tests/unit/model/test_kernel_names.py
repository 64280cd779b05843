"""Kernel names as people distinguish kernels."""

from __future__ import annotations

import pytest

from warpsight.model.naming.kernel_names import family, short


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


def test_a_sentence_has_at_most_a_hundred_characters_of_it():
    assert short("k" * 100) == "k" * 100
    assert short("k" * 101) == "k" * 99 + "…"
    assert short("void " + "k" * 100 + "(int)") == "k" * 100
