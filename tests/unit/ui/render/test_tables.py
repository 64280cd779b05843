import io

import pyarrow as pa
import pytest

from warpsight.analysis.base.result import Finding, Result, with_units
from warpsight.ui.render import numbers, tables


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (5, "5 ns"),
        (999, "999 ns"),
        (1_234, "1.23 µs"),
        (45_600, "45.6 µs"),
        (999_600, "1.00 ms"),
        (12e9, "12.0 s"),
        (7.5e12, "2 h 05 min"),
    ],
)
def test_durations(ns, text):
    assert numbers.duration(ns) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.50 KiB"), (250 << 20, "250 MiB"), (3 << 40, "3.00 TiB")],
)
def test_sizes(size, text):
    assert numbers.size(size) == text


def test_names_lose_their_middle_only():
    name = "_ZN2at6native" + "x" * 300 + "EEEEviT0_T1_"
    short = numbers.shorten(name, 30)
    assert len(short) == 30
    assert short.startswith("_ZN2at6native")
    assert short.endswith("T0_T1_")
    assert numbers.shorten("short", 30) == "short"


@pytest.fixture
def table():
    columns = {"name": ["k" * 90, "gemm"], "count": [12_000, 3]}
    columns |= {
        name: [1_500, 2_500_000] for name in ("total", "mean", "min", "median", "p95", "p99", "max", "std")
    }
    return with_units(pa.table(columns), total="ns", mean="ns")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("width", range(40, 201, 20))
def test_tables_fit_the_terminal_and_keep_name_and_total(table, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    tables.show(table, stream=out)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].split()[:3] == ["name", "count", "total"]
    assert lines[-1].startswith("gemm")


def test_in_a_pipe_nothing_is_cut_and_nothing_is_coloured(table):
    out = io.StringIO()
    tables.show(table, stream=out)
    assert "k" * 90 in out.getvalue()
    assert "\033" not in out.getvalue()
    assert "2.50 ms" in out.getvalue()


def test_numbers_are_plain_in_a_pipe_and_grouped_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rows = pa.table({"count": [12_345_678], "mean": [12_345.5], "stream": [1_234]})
    for stream, shown in ((io.StringIO(), ["12345678", "12345.5"]), (Terminal(), ["12,345,678", "12,345.5"])):
        tables.show(rows, stream=stream)
        assert stream.getvalue().splitlines()[-1].split() == [*shown, "1234"]


def test_csv_has_full_precision():
    out = io.StringIO()
    tables.write_csv(pa.table({"a": ['x"y', "p,q"], "b": [1, 2**60]}), out)
    assert out.getvalue() == 'a,b\n"x""y",1\n"p,q",1152921504606846976\n'


def test_names_that_differ_in_the_middle_still_differ_when_they_are_cut():
    begin, end = (
        "at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<at::native::",
        "(int)::{lambda(int)#1})",
    )
    names = [
        f"{begin}{op}Functor<float> >(at::TensorIteratorBase&){end}" for op in ("Mul", "Add", "Add", "Div")
    ]
    short = numbers.shorten_apart([*names, "gemm"], 30)
    assert all(len(text) <= 30 for text in short)
    assert short[1] == short[2]
    assert len(set(short)) == 4
    assert short[0].startswith("at::native:") and "Mul" in short[0] and short[4] == "gemm"


def test_in_a_pipe_a_long_name_comes_last_and_everything_else_is_in_line():
    rows = pa.table({"name": ["k" * 300, "gemm"], "count": [12_000, 3], "kind": ["a", "bb"]})
    out = io.StringIO()
    tables.show(rows, stream=out)
    lines = out.getvalue().splitlines()
    assert [line.index(text) for line, text in zip(lines, ("name", "k" * 300, "gemm"), strict=True)] == [
        13
    ] * 3
    assert lines[0].split() == ["count", "kind", "name"]


def test_a_long_name_does_not_cut_an_interval_or_a_verdict():
    column = tables._Column
    columns = [column("name", ["a" * 90], False), column("before", ["2.28 ms"], True),
               column("change", ["+19.8% (-20.7 to +81.1)"], False), column("launches", ["21"], True),
               column("verdict", ["not shown"], False)]  # fmt: skip
    for width in (60, 80):
        chosen, widths = tables.fit(columns, width)
        assert sum(widths) + 2 * (len(widths) - 1) <= width
        whole = {c.name for c, w in zip(chosen, widths, strict=True) if w >= c.width}
        assert {"before", "change", "verdict"} <= whole


def test_a_narrow_terminal_gives_up_launches_before_the_verdict():
    column = tables._Column
    columns = [column("name", ["a" * 90], False), column("before", ["2.28 ms"], True),
               column("launches", ["21 -> 22"], True), column("verdict", ["not shown"], False)]  # fmt: skip
    chosen, _ = tables.fit(columns, 40)
    assert [c.name for c in chosen] == ["name", "before", "verdict"]


def test_results_print_as_tables_that_fit_and_show_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    rows = pa.table({"name": [f"void kernel_{'x' * 80}_{n}" for n in range(30)], "total": range(30)})
    result = Result({"kernels": with_units(rows, total="ns")}, (Finding("note", "all of it is new"),))
    lines = str(result).splitlines()
    assert lines[0] == "kernels"
    assert max(map(len, lines)) <= 60
    assert "… 10 more rows" in lines
    assert lines[-1] == "note: all of it is new"
    assert repr(result) == "<Result: kernels (30); 1 finding>"
