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

    The largest excess over the ideal comes first, then each launch's working set, needless loads and stores, and false sharing. A
    file name that ends in .html gives a page with addresses over time.
    """
    from warpsight.sass.events.memory import accesses
    from warpsight.sass.events.reuse import uses
    from warpsight.sass.events.trace import EventTrace
    from warpsight.ui.cli.sass.events import answered
    from warpsight.ui.render.sass import event_answers, event_pictures

    opened = EventTrace(trace)
    found, used = accesses(opened), uses(opened)
    page = out is not None and out.suffix == ".html"
    with output.text(out, force) as stream:
        if as_json:
            stream.write(output.json_text({
                "accesses": [row.to_json() for row in found], "uses": [row.to_json() for row in used], "notes": opened.notes,
            }))  # fmt: skip
        else:
            sections = [event_answers.costs(found, top), event_answers.use(used, top)]
            if page:
                sections.append(event_answers.Section(*event_pictures.addresses(opened)))
            answered.write(stream, out, f"Memory accesses of {trace.name}", sections, opened)
    answered.warn(opened)
