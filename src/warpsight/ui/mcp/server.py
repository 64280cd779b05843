"""The MCP server: the tools over standard input and output."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from warpsight import __version__
from warpsight.errors import NO_MEMORY, WarpsightError, choices, out_of_memory
from warpsight.model.sharing.secrets import shareable
from warpsight.ui.mcp import parameters
from warpsight.ui.mcp.places import Places
from warpsight.ui.mcp.tools import Tools

#: Bytes that answers about large recordings need.
_LEAST_MEMORY = 4 << 30
_INSTRUCTIONS = (
    "Recordings of GPU programs (CUDA, OpenCL, and files of other profilers). Begin with analyze: its verdict says where "
    "the GPUs' time went, why they were idle, and what to change first, with evidence. Then look at a stretch with window, at "
    "the program's lines with source, ask stats, flame, query or analyses by name; compare runs with diff. "
    "All times are nanoseconds; everything is read-only."
)


def serve(roots: Sequence[Path]) -> None:
    """Serve until standard input closes.

    Raises:
        WarpsightError: when the package mcp is missing, or a root is not a folder.
    """
    places = Places(roots)
    _bound_memory()
    try:
        build(places).run()
    finally:
        places.close()


def _bound_memory() -> None:
    """Limit memory to half of the machine's, so that one statement cannot use it all; the tool reports when it hits the limit."""
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    most = min([max(half, _LEAST_MEMORY), *(one for one in (soft, hard) if one != resource.RLIM_INFINITY)])
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def build(places: Places) -> Any:
    """The server object, with one tool per method of :class:`Tools`.

    Raises:
        WarpsightError: when the package mcp is missing or older than 2.0.
    """
    try:
        server = importlib.import_module("mcp.server.mcpserver").MCPServer
        types = importlib.import_module("mcp.types")
    except ImportError:
        raise WarpsightError(
            "the package mcp (2.0 or newer) is not installed: pip install 'warpsight[mcp]'"
        ) from None
    made = server("warpsight", instructions=_INSTRUCTIONS, version=__version__)
    tools = Tools(places)
    failure = importlib.import_module("mcp.server.mcpserver.exceptions").ToolError
    for method in tools.all():
        answering = with_errors(method, failure, places)
        made.tool(annotations=types.ToolAnnotations(read_only_hint=True))(answering)
    known = {method.__name__: inspect.signature(method).parameters for method in tools.all()}
    list_tools, call_tool = made.list_tools, made.call_tool

    async def described() -> Any:
        listed = await list_tools()
        for tool in listed:
            tool.input_schema = parameters.described(tool.name, tool.input_schema)
        return listed

    async def checked(name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        for argument in arguments if name in known else ():
            if argument not in known[name]:
                raise failure(
                    f"{name} has no argument {argument!r}{choices(argument, known[name], 'arguments: ')}"
                )
        return await call_tool(name, arguments, context)

    made.list_tools, made.call_tool = described, checked
    return made


def with_errors(
    method: Callable[..., dict[str, Any]], failure: Callable[[str], Exception], places: Places | None = None
) -> Callable[..., dict[str, Any]]:
    """The method with every error turned into `failure`, with a message an agent can act on and no traceback."""

    @functools.wraps(method)
    def call(*args: object, **kwargs: object) -> dict[str, Any]:
        try:
            return method(*args, **kwargs)
        except WarpsightError as error:
            raise failure(shareable(str(error))) from None
        except Exception as error:
            raise failure(
                f"this {NO_MEMORY}" if out_of_memory(error) else _unexpected(error, places)
            ) from None

    return call


def _unexpected(error: Exception, places: Places | None) -> str:
    try:
        if places is not None:
            places.blame(error)
    except WarpsightError as damaged:
        return shareable(str(damaged))
    return shareable(f"internal error: {type(error).__name__}: {error}")
