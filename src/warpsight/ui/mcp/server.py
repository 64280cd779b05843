"""The MCP server: the tools over standard input and output."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from warpsight import __version__
from warpsight.errors import NO_MEMORY, WarpsightError, out_of_memory
from warpsight.model.sharing.secrets import shareable
from warpsight.ui.mcp.places import Places
from warpsight.ui.mcp.tools import Tools

_INSTRUCTIONS = (
    "Recordings of GPU programs (CUDA, OpenCL, and files of other profilers). Begin with analyze: its verdict says where "
    "the GPUs' time went, why they were idle, and what to change first, with evidence. Then ask stats, flame, query or "
    "analyses by name; compare runs with diff. "
    "All times are nanoseconds; everything is read-only."
)


def serve(roots: Sequence[Path]) -> None:
    """Serve until standard input closes.

    Raises:
        WarpsightError: when the package mcp is missing, or a root is not a folder.
    """
    places = Places(roots)
    try:
        build(places).run()
    finally:
        places.close()


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
    for method in Tools(places).all():
        answering = _with_errors_as_answers(method, places)
        made.tool(annotations=types.ToolAnnotations(read_only_hint=True))(answering)
    return made


def _with_errors_as_answers(
    method: Callable[..., dict[str, Any]], places: Places | None = None
) -> Callable[..., dict[str, Any]]:
    """The method with errors as answers: an agent can act on the message, and needs no traceback."""

    @functools.wraps(method)
    def call(*args: object, **kwargs: object) -> dict[str, Any]:
        try:
            return method(*args, **kwargs)
        except WarpsightError as error:
            return {"error": shareable(str(error))}
        except Exception as error:
            return {"error": f"this {NO_MEMORY}" if out_of_memory(error) else _unexpected(error, places)}

    return call


def _unexpected(error: Exception, places: Places | None) -> str:
    try:
        if places is not None:
            places.blame(error)
    except WarpsightError as damaged:
        return shareable(str(damaged))
    return shareable(f"internal error: {type(error).__name__}: {error}")
