"""The role of a kernel, from its name: comparable across vendors whose kernels have different names."""

from __future__ import annotations

import re
from functools import cache

from warpsight.model.naming import collective_names

#: Role → names that imply it (cuBLAS, cuDNN, CUTLASS, hipBLASLt/Tensile, MIOpen, CK, Triton, torch's own); the first match
#: counts.
_ROLES = tuple(
    (role, re.compile(pattern, re.IGNORECASE))
    for role, pattern in (
        ("attention", r"flash|fmha|attn|attention|sdpa|mha_"),
        ("convolution", r"conv(?!ert)|winograd|implicit_gemm|igemm|wgrad|dgrad|miopen.*(?:fwd|bwd|wrw)"),
        ("matrix product", r"gemm|gemv|cijk_|nvjet|cublas|cutlass|xmma|matmul|splitk|_mm_|wmma|dot_kernel"),
        ("softmax", r"softmax|logsumexp|cross_entropy|nll_loss"),
        ("normalisation", r"layer_?norm|rms_?norm|batch_?norm|group_?norm|instance_?norm|\bbn_"),
        ("optimiser", r"multi_tensor|adam(?!ax)|\bsgd|lamb(?!da)|foreach|fused_optim"),
        (
            "embedding and indexing",
            r"embedding|index|gather|scatter|take_|put_|rotary|rope|masked_(?:fill|select)",
        ),
        ("sort and search", r"sort|radix|topk|top_k|argmax|argmin|scan|cumsum|unique|histogram|multinomial"),
        ("random numbers", r"random|philox|dropout|bernoulli|distribution_|uniform|normal_kernel"),
        (
            "copy and layout",
            r"copy_?kernel|copy_device|direct_copy|^copies$|transpose|permute|cat(?:_|array|batch)|im2col|\bpad|fill|memset|memcpy",
        ),
        ("reduction", r"reduce|reduction|sum_|mean|norm_|std_var|welford"),
        (
            "elementwise",
            r"elementwise|pointwise|functor|poi_fused|unrolled|vectorized|add|mul|relu|gelu|silu|sigmoid|tanh|exp|where|activation",
        ),
    )
)


@cache
def role(name: str) -> str:
    """The role of a kernel; `other` if its name implies none."""
    if collective_names.parse(name):
        return "communication"
    for one, pattern in _ROLES:
        if pattern.search(name):
            return one
    return "other"
