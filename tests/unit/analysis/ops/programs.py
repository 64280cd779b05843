"""Small traces of operators and the kernels they launch; times in ns, easy to add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.unit.analysis.conftest import EPOCH, device, kernel
from tests.unit.analysis.ops.calls import attributes

H200 = device(0)


@dataclass
class Program:
    """Collects rows. Names are interned in the order in which they are used."""

    names: list[str] = field(default_factory=list)
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {"device": [H200]})
    correlation: int = 0

    def name(self, text: str) -> int:
        """Id of a name."""
        if text not in self.names:
            self.names.append(text)
        return self.names.index(text) + 1

    def add(self, table: str, **columns: Any) -> None:
        """A row of a table."""
        self.rows.setdefault(table, []).append({"process": 0, **columns})

    def op(
        self, name: str, start: int, end: int, shapes: Sequence[Any] = (), *, thread: int = 100, sequence: int | None = None,
        forward: int | None = None, stack: int | None = None, **more: Any,
    ) -> None:  # fmt: skip
        """An operator from `start` to `end`; `forward` is torch's number of its forward's thread."""
        told = attributes(list(shapes), **more, **({} if forward is None else {"Fwd thread id": forward}))
        self.add("op", start=EPOCH + start, duration=end - start, name_id=self.name(name), thread=thread, sequence=sequence,
                 stack=stack, correlation=len(self.rows.get("op", ())) + 1, **told)  # fmt: skip

    def kernel(
        self, launched: int, length: int, name: str = "gemm", *, thread: int = 100, **more: Any
    ) -> None:
        """A kernel, and its launch call of 1 ns; kernels run one after another."""
        self.correlation += 1
        self.add("launch", start=EPOCH + launched, duration=1, function="cudaLaunchKernel", thread=thread,
                 correlation=self.correlation, captured=False)  # fmt: skip
        begin = EPOCH + 1_000_000 + sum(row["duration"] for row in self.rows.get("kernel", ()))
        row = kernel(begin, length, self.name(name), correlation=self.correlation, **more)
        self.rows.setdefault("kernel", []).append(row)

    def module(self, name: str, start: int, end: int, *, thread: int = 100) -> None:
        """A module that runs, as Kineto's Python functions tell it."""
        self.add("marker", start=EPOCH + start, duration=end - start, kind="push/pop", open=False, domain="python",
                 source="framework", category="python_function", name_id=self.name(f"nn.Module: {name}"),
                 thread=thread)  # fmt: skip

    def range(self, name: str, start: int, end: int, *, thread: int = 100) -> None:
        """An NVTX range."""
        self.add("marker", start=EPOCH + start, duration=end - start, kind="push/pop", open=False, source="nvtx",
                 name_id=self.name(name), thread=thread)  # fmt: skip

    def built(self, build: Any, **more: Any) -> Any:
        """The trace."""
        return build(names=tuple(self.names), **self.rows, **more)


def linear(
    program: Program, start: int, length: int = 100, *, thread: int = 100, sequence: int | None = None
) -> None:
    """`aten::linear` with its `aten::addmm`, which launches a kernel of `length`: 64·16 results of 32 products."""
    program.op(
        "aten::linear", start, start + 50, ([64, 32], [16, 32], [16]), thread=thread, sequence=sequence
    )
    program.op("aten::addmm", start + 10, start + 40, ([16], [64, 32], [32, 16], None, None), values={3: "1", 4: "1"},
               thread=thread, sequence=None if sequence is None else sequence + 1)  # fmt: skip
    program.kernel(start + 20, length, thread=thread)


#: What :func:`linear` computes: products and sums, and the bias; and the bytes of bias, input, weight and result.
LINEAR_FLOPS, LINEAR_BYTES = 2 * 64 * 16 * 32 + 64 * 16, 2 * (16 + 64 * 32 + 32 * 16 + 64 * 16)
