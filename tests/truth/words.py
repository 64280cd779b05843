"""Names put together at random, so that no list of words can tell what a name stands for.

Words that mean something to profilers (`PIL`, `decode`, `read_`, `sleep`, `ncclGroupEnd`) occur in names of things that have
nothing to do with it.
"""

from __future__ import annotations

import random
import re


def _listed(words: str) -> tuple[str, ...]:
    return tuple(words.split())


_FIRST = _listed(
    "amber basalt cedar delta ember fallow garnet harbor indigo juniper kelp larch meadow nickel onyx pebble quartz raven "
    "saffron tundra umber velvet willow xenon yarrow zephyr bravo cobalt dune falcon glacier hazel ivory jasper lotus"
)
_SECOND = _listed(
    "rotate fold weave lift carve blend trim scan pack shift merge split twist press align mask clip probe roll slice stack "
    "hash tune wrap sort cast mix pool norm gate route bend pivot crop tile scale fuse prune"
)
_THIRD = _listed(
    "rows lanes tiles heads blocks panels words pages beams slots cells bands grids spans nodes links leaves shards rings "
    "fronts cores pairs edges masks tables states fields units parts chunks chords knots ridges vaults"
)
#: Names that mislead whoever looks for words in them.
_MISLEADING = (
    "compiled_{}",
    "thread_pool_wait_{}",
    "read_{}_ahead",
    "decode_token_{}",
    "sleepless_{}",
    "{}_spill",
    "preload_{}",
    "unsynchronized_{}",
    "{}_waiter",
    "recv_{}",
    "{}_malloc_free",
    "open_{}_file",
    "{}_json_dumps",
    "lock_free_{}",
)
_NAMESPACES = ("at::native", "cutlass::device", "fmha", "tk", "project::ops", "flash", "moe")
_TYPES = ("float", "__half", "__nv_bfloat16", "int8_t", "double")
_COLLECTIVES = (
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclKernel_AllReduce_RING_LL_Sum_half(ncclDevComm*, unsigned long, ncclWork*)",
)
_LIBRARIES = (
    "/usr/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py",
    "/usr/lib/python3.11/site-packages/PIL/Image.py",
    "/usr/lib/python3.11/threading.py",
    "/usr/lib/python3.11/json/decoder.py",
    "/usr/lib/python3.11/site-packages/numpy/core/numeric.py",
    "/opt/conda/lib/python3.12/selectors.py",
)

_LIBRARY_FUNCTIONS = ("sleep", "wait", "_recv", "fetch", "decode", "load", "__next__", "get")
_BASE = re.compile(rf"(?:{'|'.join(_FIRST)})_(?:{'|'.join(_SECOND)})_(?:{'|'.join(_THIRD)})")


def base(kernel: str) -> str:
    """The words in a kernel's name, which every way to shorten it keeps; the name itself where it has none."""
    found = _BASE.search(kernel)
    return found[0] if found else kernel


class Names:
    """Makes names that occur once in a program."""

    def __init__(self, seed: str) -> None:
        self._draw = random.Random(seed)
        self._used: set[str] = set()

    def words(self) -> tuple[str, str, str]:
        """Three words that no other name is made of."""
        while True:
            found = tuple(self._draw.choice(words) for words in (_FIRST, _SECOND, _THIRD))
            if "_".join(found) not in self._used:
                self._used.add("_".join(found))
                return found[0], found[1], found[2]

    def kernel(self) -> str:
        """A kernel's name: a template of C++, a mangled name, one of Triton's, or a plain one."""
        base = "_".join(self.words())
        space, kind = self._draw.choice(_NAMESPACES), self._draw.choice(_TYPES)
        width = self._draw.choice((2, 4, 8, 16))
        return self._draw.choice(
            (
                f"void {space}::{base}<{width}, {kind}>({kind}*, {kind} const*, int)",
                f"void {space}::(anonymous namespace)::{base}<{kind}, {width}>(int, {kind}*)",
                f"{base}",
                f"triton_{self._draw.choice(('poi', 'red', 'per'))}_fused_{base}",
                f"_ZN2op{len(base)}{base}EPfi",
            )
        )

    def collective(self) -> str:
        """A collective's kernel, as NCCL names them."""
        return self._draw.choice(_COLLECTIVES)

    def function(self) -> str:
        """A function's name, in one of the styles people write."""
        first, second, third = self.words()
        if self._draw.random() < 0.3:
            return self._draw.choice(_MISLEADING).format(f"{first}_{third}")
        return self._draw.choice(
            (
                f"{second}_{first}_{third}",
                f"{first.title()}{third.title()}.{second}",
                f"_{second}_{third}_{first}",
                f"{first}_{second}",
            )
        )

    def annotation(self) -> str:
        """A range's name, in one of the styles people and frameworks write."""
        first, second, third = self.words()
        if self._draw.random() < 0.15:
            return self._draw.choice(
                (f"ncclGroupEnd {first} {third}", f"cudaGraph {second} {first}", f"wait-free {first} {third}")
            )
        if self._draw.random() < 0.2:
            return self.function()
        return self._draw.choice(
            (
                f"{second} {first} {third}",
                f"{first}::{second}_{third}",
                f"## {second.title()} {first.title()} ##",
                f"{first.title()}.{second}#{third.title()}.{second}",
                f"[{first}] {second}",
            )
        )

    def operator(self) -> str:
        """A framework operator."""
        first, second, third = self.words()
        return self._draw.choice(
            (f"aten::{second}_{third}_{first}", f"{first}::{second}_{third}", f"aten::_{first}_{second}")
        )

    def file(self) -> str:
        """A file of the user's."""
        first, second, third = self.words()
        return f"/home/user/{first}/{second}_{third}.py"

    def library(self) -> tuple[str, str]:
        """A function of a library, and its file."""
        return self._draw.choice(_LIBRARY_FUNCTIONS), self._draw.choice(_LIBRARIES)
