import pytest

from warpsight.model.naming.collective_names import CollectiveName, parse


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
         CollectiveName("nccl", "all-reduce", "ring", "ll", "sum", "f32")),
        ("ncclDevKernel_AllReduce_Sum_bf16_TREE_LL128(ncclDevKernelArgsStorage<4096ul>)",
         CollectiveName("nccl", "all-reduce", "tree", "ll128", "sum", "bf16")),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
         CollectiveName("nccl", "all-reduce", "ring", "ll", "sum", "f32")),
        ("ncclKernel_ReduceScatter_RING_SIMPLE_Sum___nv_bfloat16(ncclDevComm*)",
         CollectiveName("nccl", "reduce-scatter", "ring", "simple", "sum", "bf16")),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
         CollectiveName("nccl", "all-gather", "ring", "ll")),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", CollectiveName("nccl", "send-receive")),
        ("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", CollectiveName("nccl", "several")),
        ("_Z13ncclDevKernel_AllReduce_Sum_f16_NVLS24ncclDevKernelArgsStorageILm4096EE",
         CollectiveName("nccl", "all-reduce")),
        ("void deep_ep::intranode::dispatch<8, 768>(int4*, float*)", CollectiveName("deepep", "all-to-all")),
        ("void house::ep::internode::combine<false, 8>(int4*)", CollectiveName("deepep", "all-to-all")),
        ("void house::ep::internode_ll::dispatch<8>(void*)", CollectiveName("deepep", "all-to-all")),
        ("void vllm::cross_device_reduce_1stage<__half, 2>(RankData*)", CollectiveName("custom", "all-reduce")),
    ],
)  # fmt: skip
def test_names_of_communication_kernels_are_taken_apart(name, expected):
    found = parse(name)
    assert found is not None
    if name.startswith("_Z"):  # a mangled name runs into its arguments: library and operation are certain
        found = CollectiveName(found.library, found.operation)
    assert found == expected


@pytest.mark.parametrize(
    "name",
    [
        "ampere_bf16_s1688gemm",
        "void step::internode::f()",
        "void cub::DeviceReduceKernel<float>()",
        "reduce_kernel",
        "copy_nccl_buffer",
    ],
)
def test_other_kernels_do_not_communicate(name):
    assert parse(name) is None
