"""`warpsight open`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from warpsight.ui.cli import app, options

if TYPE_CHECKING:
    from warpsight.ui.render.report.serve import TraceServer

#: How long a transfer in progress at Ctrl-C may take to finish (s).
_PATIENCE_S = 5.0


def command(
    trace: options.NewestTrace = "",
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the addresses.")] = False,
    perfetto: Annotated[
        bool, typer.Option("--perfetto", help="Open the Perfetto UI instead of the report.")
    ] = False,
    port: Annotated[
        int, typer.Option(help="Port to listen on; a free one by default.", min=0, max=65535)
    ] = 0,
) -> None:
    """Show a trace in the browser: the report, and the Perfetto UI with the trace loaded.

    Serves on this machine only, at an address with a random token, until Ctrl-C. The pages load nothing from elsewhere; paths
    and arguments appear as recorded.
    """
    serve(trace or str(options.newest()), browser=not no_browser, perfetto=perfetto, port=port)


def serve(trace: str, *, browser: bool = True, perfetto: bool = False, port: int = 0) -> None:
    """Serve a trace until Ctrl-C; also used by `record --open`.

    Raises:
        WarpsightError: when the port is taken, or the Perfetto UI is requested but not installed.
    """
    import threading

    from warpsight.api.trace import open as open_trace
    from warpsight.ui.render import loss, terminal

    with open_trace(trace) as opened:
        try:
            with opened.serve(perfetto=perfetto, port=port) as server:
                loss.warn(opened)  # before the address: a Ctrl-C in a query is DuckDB's, not ours
                # Once the address is printed, Ctrl-C is the usual way to end: transfers in progress finish first.
                app.end_soon_after_interrupt(_PATIENCE_S)
                _print_addresses(server)
                if browser:
                    _browse(server.perfetto if perfetto and server.perfetto else server.url, server.port)
                terminal.note("Ctrl-C ends it")
                threading.Event().wait()
        except KeyboardInterrupt:
            terminal.note("")


def _print_addresses(server: TraceServer) -> None:
    """Print the addresses, the report's first."""
    from warpsight.ui.render import terminal
    from warpsight.ui.render.report.serve import NO_PERFETTO

    print(server.url, flush=True)
    if server.perfetto is not None:
        print(server.perfetto, flush=True)
    else:
        terminal.note(NO_PERFETTO)


def _browse(url: str, port: int) -> None:
    import platform
    import webbrowser

    from warpsight.ui.render import terminal

    if not webbrowser.open(url):
        way = f"ssh -L {port}:127.0.0.1:{port} {platform.node() or 'HOST'}"
        terminal.note(f"no browser was found; open the address above, on another machine after: {way}")
