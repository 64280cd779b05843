"""`warpsight mcp` as agents use it: a subprocess on standard input and output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp.client", reason="needs mcp 2")
pytest.importorskip("mcp.server.mcpserver", reason="needs mcp 2")
GOLDEN = Path(__file__).parents[1] / "golden"
#: Bytes of an answer that was not asked to be longer, and calls that a question may take.
BYTES, CALLS = 8_000, 6

Ask = Callable[..., Awaitable[Any]]


def planted(name: str) -> str:
    return f"planted_{name}.warp.zip"


async def talk(script: Callable[[Any], Awaitable[None]], root: Path = GOLDEN, limits: str = "") -> None:
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    server = StdioServerParameters(
        command="bash",
        args=["-c", f'{limits} exec "$0" "$@"', sys.executable, "-m", "warpsight", "mcp", str(root)],
        env=dict(os.environ),
    )
    async with Client(stdio_client(server)) as client:
        await script(client)


def test_tools_say_what_they_take() -> None:
    import anyio

    async def script(client: Any) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == [
            "list_traces", "info", "analyze", "window", "source", "stats", "query", "flame", "diff"]  # fmt: skip
        for tool in tools.values():
            assert tool.annotations.read_only_hint
            assert tool.input_schema["additionalProperties"] is False
            for name, form in tool.input_schema["properties"].items():
                assert len(form["description"]) > 20, name
        of = {name: tool.input_schema["properties"] for name, tool in tools.items()}
        assert {"kernels", "memory", "ops"} <= set(of["stats"]["subject"]["enum"])
        assert {"time", "idle", "samples"} <= set(of["flame"]["weight"]["enum"])
        listed = next(one for one in of["analyze"]["names"]["anyOf"] if one["type"] == "array")
        assert {"gaps", "iterations", "critical-path"} <= set(listed["items"]["enum"])

    anyio.run(talk, script)


def test_errors_are_errors_and_say_what_to_do() -> None:
    import anyio

    trace = planted("leak")
    wrong = [
        ("info", {"trace": "../../pyproject.toml"}, "below"),
        ("analyze", {"trace": trace, "names": ["gapz"]}, "did you mean gaps"),
        ("stats", {"trace": trace, "subjekt": "copies"}, "no argument 'subjekt'; did you mean subject"),
        ("query", {"trace": trace, "sql": "DROP TABLE kernel"}, "can only be read"),
        ("window", {"trace": trace, "begin_s": 2, "end_s": 1}, "is empty"),
        ("source", {"trace": trace, "place": "nowhere.py"}, "nowhere.py"),
        ("stats", {"trace": trace, "rows": "many"}, "rows"),
    ]

    async def script(client: Any) -> None:
        for name, arguments, part in wrong:
            answer = await client.call_tool(name, arguments)
            assert answer.is_error, name
            assert part in answer.content[0].text

    anyio.run(talk, script)


async def what_loads_data(ask: Ask) -> None:
    found = await ask("analyze", trace=planted("data_loading"))
    assert found["findings"][0]["class"] == "host"
    assert "Images.__getitem__ (data_loading.py:20)" in found["headline"]


async def what_leaks(ask: Ask) -> None:
    found = await ask("analyze", trace=planted("leak"))
    assert "2.47 GiB" in found["headline"]
    made = (await ask("stats", trace=planted("leak"), subject="memory", by="stack"))["tables"]["memory"][
        "rows"
    ]
    assert made[0]["stack"].startswith("train (leak.py:21)") and made[0]["at_end"] > 2 << 30


async def which_copies_cost_most(ask: Ask) -> None:
    rows = (await ask("stats", trace=planted("pageable_copies"), subject="copies"))["tables"]["copies"][
        "rows"
    ]
    assert (rows[0]["kind"], rows[0]["count"]) == ("HtoD pageable → device", 60)


async def which_line_copies(ask: Ask) -> None:
    lines = (await ask("source", trace=planted("pageable_copies")))["lines"]
    assert lines[0]["line"] == "pageable_copies.py:16"


async def why_streams_take_turns(ask: Ask) -> None:
    found = await ask("analyze", trace=planted("serialised_streams"))
    assert "legacy default stream" in found["headline"]


async def which_step_is_slow(ask: Ask) -> None:
    asked = {"trace": planted("slow_step"), "names": ["iterations"], "rows": 40}
    found = (await ask("analyze", **asked))["iterations"]["tables"]
    assert found["summary"]["rows"][0]["outliers"] == 1
    cursor, slow = 0, None
    while slow is None:
        page = await ask("analyze", **asked, cursor=cursor)
        rows = page["iterations"]["tables"]["iterations"]["rows"]
        slow, cursor = next((row for row in rows if row["outlier"]), None), page.get("next_cursor", 0)
    assert slow["label"] == "step 27"


async def what_the_slow_step_did(ask: Ask) -> None:
    findings = (await ask("analyze", trace=planted("slow_step")))["findings"]
    begin, end = next(one["at_s"] for one in findings if "step 27" in one["text"])
    found = await ask("window", trace=planted("slow_step"), begin_s=begin, end_s=end)
    assert {row["kind"] for row in found["device"]} <= {"kernel", "memcpy", "memset"}
    assert [row["name"] for row in found["host"]] == [
        "cudaDeviceSynchronize",
        "context",
    ]  # the host was ahead
    assert found["samples"]


async def why_the_gpu_was_idle_at_first(ask: Ask) -> None:
    found = await ask("window", trace=planted("slow_step"), begin_s=3, end_s=4)
    assert found["device"] == []  # and yet it is known why
    assert found["idle"][0]["host"] == "train" and found["idle"][0]["causes"].startswith("host 2.98 s")


async def who_waits_each_step(ask: Ask) -> None:
    found = await ask("analyze", trace=planted("sync_every_step"))
    assert "cudaDeviceSynchronize lets the GPU run dry 148 times" in found["headline"]


async def whether_clocks_fell(ask: Ask) -> None:
    found = await ask("analyze", trace=planted("throttled"))
    assert "1,506 MHz instead of 1,980 MHz" in found["headline"]


async def how_many_kernels_are_short(ask: Ask) -> None:
    sql = "SELECT count(*) AS n FROM kernel WHERE duration < 10000"
    found = await ask("query", trace=planted("tiny_kernels"), sql=sql)
    assert found["rows"] == [{"n": 2010}]


async def whether_a_run_is_slower(ask: Ask) -> None:
    runs = {"before": planted("tiny_kernels"), "after": planted("sync_every_step")}
    assert (await ask("diff", **runs))["verdict"] == "untested"  # one run a side


QUESTIONS = (
    what_loads_data, what_leaks, which_copies_cost_most, which_line_copies, why_streams_take_turns, which_step_is_slow,
    what_the_slow_step_did, why_the_gpu_was_idle_at_first, who_waits_each_step, whether_clocks_fell, how_many_kernels_are_short,
    whether_a_run_is_slower,
)  # fmt: skip


def test_an_agent_answers_a_dozen_questions_in_a_few_short_calls() -> None:
    import anyio

    async def script(client: Any) -> None:
        for question in QUESTIONS:
            calls = 0

            async def ask(tool: str, **arguments: Any) -> Any:
                nonlocal calls
                calls += 1
                answer = await client.call_tool(tool, arguments)
                assert not answer.is_error, answer.content[0].text
                assert len(json.dumps(answer.structured_content)) <= BYTES
                return answer.structured_content

            await question(ask)
            assert calls <= CALLS, question.__name__

    anyio.run(talk, script)


def test_pages_of_a_query_hold_every_row_once() -> None:
    import anyio

    trace = planted("leak")
    sql = "SELECT * FROM kernel ORDER BY start, correlation"

    async def script(client: Any) -> None:
        answer = await client.call_tool("query", {"trace": trace, "sql": "SELECT count(*) AS n FROM kernel"})
        count, seen, cursor = answer.structured_content["rows"][0]["n"], [], 0
        while cursor is not None:
            page = (
                await client.call_tool("query", {"trace": trace, "sql": sql, "cursor": cursor})
            ).structured_content
            assert len(json.dumps(page)) <= BYTES
            seen += [row["correlation"] for row in page["rows"]]
            cursor = page.get("next_cursor")
        assert len(seen) == len(set(seen)) == count

    anyio.run(talk, script)


def test_source_is_read_below_the_served_folders_only(tmp_path: Path) -> None:
    import anyio

    import warpsight

    inside, outside = tmp_path / "served" / "train.py", tmp_path / "elsewhere.py"
    inside.parent.mkdir()
    for file in (inside, outside):
        file.write_text("a = 1\nlaunch(a)\nb = 2\n", encoding="utf-8")
    with warpsight.TraceWriter(inside.parent / "run.warp") as writer:
        for number, file in enumerate((inside, outside)):
            stack = writer.stack([("step", str(file), 2, None, "python", None)])
            writer.add("kernel", [{"start": 1000 * number, "duration": 500, "name_id": writer.name("k"), "context": 1,
                                   "stream": 7, "device": 0, "process": 0, "stack": stack, "graph_level": False}])  # fmt: skip

    async def script(client: Any) -> None:
        found = (await client.call_tool("source", {"trace": "run.warp"})).structured_content
        read = {row["line"].rpartition("/")[2]: row.get("source") for row in found["lines"]}
        assert read == {"train.py:2": ["1: a = 1", "2: launch(a)", "3: b = 2"], "elsewhere.py:2": None}

    anyio.run(talk, script, inside.parent)


def test_a_statement_without_end_costs_an_error_and_not_the_machine() -> None:
    import anyio

    async def script(client: Any) -> None:
        trace = {"trace": planted("slow_step")}
        greedy = "SELECT max(length(repeat('x', 400000000) || name)) FROM kernel"
        refused = await client.call_tool("query", {**trace, "sql": greedy})
        assert refused.is_error and "memory" in refused.content[0].text.lower()
        answered = await client.call_tool("query", {**trace, "sql": "SELECT count(*) FROM kernel"})
        assert not answered.is_error

    anyio.run(talk, script, GOLDEN, "ulimit -S -d 2500000;")


def test_half_of_the_machines_memory_is_the_most_it_takes() -> None:
    code = (
        "import resource; from warpsight.ui.mcp import server; server._bound_memory(); "
        "print(resource.getrlimit(resource.RLIMIT_DATA)[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < int(done.stdout) <= max(memory // 2, 4 << 30)
