"""`warpsight sass memory`."""

from __future__ import annotations

from warpsight.ui.cli import options, output


def command(
    trace: options.EventsPath,
    top: options.Top = 20,
    as_json: options.Json = False,
    out: options.Out = None,
    force: options.Force = False,
) -> None:
    """Show what each memory instruction costs: global-memory sectors per request, shared-memory bank passes.

    The largest excess over the ideal comes first.
    """
    from warpsight.sass.events.memory import accesses
    from warpsight.sass.events.trace import EventTrace
    from warpsight.ui.render import terminal
    from warpsight.ui.render.sass import events

    opened = EventTrace(trace)
    found = accesses(opened)
    with output.text(out, force) as stream:
        if as_json:
            stream.write(
                output.json_text({"accesses": [row.to_json() for row in found], "notes": opened.notes})
            )
        else:
            stream.write(events.memory(found, top))
    for note in [
        *opened.notes,
        *([f"a part of the events: {', '.join(opened.partial)}"] if opened.partial else []),
    ]:
        terminal.warning(note)
