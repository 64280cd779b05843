"""`warpsight mcp` as agents use it: a subprocess on standard input and output."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp.client", reason="needs mcp 2")
pytest.importorskip("mcp.server.mcpserver", reason="needs mcp 2")
GOLDEN = Path(__file__).parents[1] / "golden"


async def talk(calls: list[tuple[str, dict[str, Any]]]) -> tuple[list[Any], list[Any]]:
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    server = StdioServerParameters(
        command=sys.executable, args=["-m", "warpsight", "mcp", str(GOLDEN)], env=dict(os.environ)
    )
    async with Client(stdio_client(server)) as client:
        tools = (await client.list_tools()).tools
        return tools, [
            (await client.call_tool(name, arguments)).structured_content for name, arguments in calls
        ]


def test_an_agent_lists_asks_and_is_told_its_errors() -> None:
    import anyio

    leak = {"trace": "planted_leak.warp.zip"}
    tools, (verdict, count, refused, wrong, same) = anyio.run(
        talk,
        [
            ("analyze", leak),
            ("query", {**leak, "sql": "SELECT count(*) AS n FROM kernel"}),
            ("info", {"trace": "../../pyproject.toml"}),
            ("analyze", {**leak, "names": ["gapz"]}),
            ("diff", {"before": leak["trace"], "after": leak["trace"]}),
        ],
    )
    assert [tool.name for tool in tools] == [
        "list_traces", "info", "analyze", "stats", "query", "flame", "diff"]  # fmt: skip
    assert all(tool.annotations.read_only_hint for tool in tools)
    assert verdict["headline"].startswith("leak: memory grows by")
    assert count["rows"] == [{"n": 162}]
    assert "below" in refused["error"]
    assert "gaps" in wrong["error"]
    assert same["verdict"] == "untested"  # one run a side
