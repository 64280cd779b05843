"""The SQL that makes the text of every event of a Kineto file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warpsight.formats.selection import Selection
from warpsight.formats.writing.queries import json_members
from warpsight.model.allocators import changes

if TYPE_CHECKING:
    from warpsight.model import StoredTrace


def us(column: str) -> str:
    """Nanoseconds as microseconds with three decimals."""
    sign = f"CASE WHEN ({column}) < 0 THEN '-' ELSE '' END"
    return (
        f"{sign} || (abs({column}) // 1000)::VARCHAR || '.' || lpad((abs({column}) % 1000)::VARCHAR, 3, '0')"
    )


def quoted(text: str) -> str:
    """A JSON string."""
    return f"to_json({text})::VARCHAR"


def complete(category: str, name: str, pid: str, tid: str, arguments: str) -> str:
    """An X event for a row with start and duration; `arguments` is an SQL expression for the members of args.

    A row without a name or a track, as in a damaged file, still becomes an event; SQL would otherwise turn its whole text into
    NULL.
    """
    return (
        f"""'{{"ph":"X","cat":"' || {category} || '","name":' || coalesce({name}, '""') || ',"pid":' || {pid} """
        f"""|| ',"tid":' || coalesce(({tid})::VARCHAR, '0') || ',"ts":' || {us("t.start")} """
        f"""|| ',"dur":' || {us("greatest(coalesce(t.duration, 0), 0)")} || ',"args":{{' || coalesce({arguments}, '') || '}}}}'"""
    )


def members(*pairs: tuple[str, str]) -> str:
    """`"key":value` of every value that is not null, with commas between."""
    parts = ", ".join(f"""'"{key}":' || ({value})::VARCHAR""" for key, value in pairs)
    return f"concat_ws(',', {parts})"


_ATTRIBUTES = json_members("t.attributes")
_WHERE = "t.process = {process} AND {where}"
#: The track of device work, whose numbers the format cannot leave out.
_TRACK = ("coalesce(t.device, 0)", "t.stream")
_DEVICE = (
    ("device", "t.device"),
    ("context", "t.context"),
    ("stream", "t.stream"),
    ("correlation", "t.correlation"),
)
_GRAPH = (("graph id", "t.graph"), ("graph node id", "t.graph_node"))
#: Not part of Kineto's format: extra facts from our recordings.
_ADDRESSES = (("source address", "t.source_address"), ("destination address", "t.destination_address"))
_SHAPE = (
    ("grid", "'[' || t.grid_x || ',' || t.grid_y || ',' || t.grid_z || ']'"),
    ("block", "'[' || t.block_x || ',' || t.block_y || ',' || t.block_z || ']'"),
)
_SHARED = ("shared memory", "t.shared_static + t.shared_dynamic")
_MEMORY = {"pageable": "Pageable", "pinned": "Pinned", "device": "Device", "array": "Array", "managed": "Managed",
           "device static": "Device Static", "managed static": "Managed Static"}  # fmt: skip
_SYNC = {
    "event": "Event Sync",
    "stream wait event": "Stream Wait Event",
    "stream": "Stream Sync",
    "context": "Context Sync",
}


#: Sort key within a table: a total order, so that exporting a trace always gives the same bytes.
_ORDER = {
    **dict.fromkeys(("launch", "api", "op"), "t.start, t.duration DESC, t.thread, t.correlation"),
    **dict.fromkeys(
        ("kernel", "memcpy", "memset", "sync"), "t.start, t.device, t.stream, t.correlation, t.duration"
    ),
}


def _case(column: str, words: dict[str, str], otherwise: str) -> str:
    cases = " ".join(f"WHEN '{ours}' THEN '{theirs}'" for ours, theirs in words.items())
    return f"CASE {column} {cases} ELSE {otherwise} END"


def statements(trace: StoredTrace, selection: Selection, process: int) -> Iterator[tuple[str, str]]:
    """The category of each row, and a statement for its text, for the whole selection."""
    pid = f"(SELECT pid FROM process WHERE process = {process})"
    yield from _names(process, pid)
    functions = f"SELECT count(*) FROM marker_ids WHERE category = 'python_function' AND process = {process}"
    for table, sql in _slices(pid, not trace.sql(functions).fetchall()[0][0]).items():
        if selection.wants(table) and trace.count(table):
            where = _WHERE.format(process=process, where=selection.where(table))
            yield "slices", sql.format(where=where, process=process)
    if selection.flows:
        yield from _arrows(trace, process, pid)
    where = f"t.process = {process} AND {selection.instants()}"
    if selection.wants("memory") and trace.count("memory"):
        yield (
            "samples",
            _memory(trace, pid)
            + f" WHERE {where} AND t.operation IN ('allocate', 'free') ORDER BY t.time, t.address, t.operation",
        )
    if selection.wants("counter") and trace.count("counter"):
        own = f"(t.process = {process} OR t.process IS NULL) AND isfinite(t.value) AND {selection.instants()}"
        yield (
            "samples",
            f"""
            SELECT '{{"ph":"C","cat":"counter","name":' || {quoted("t.name")} || ',"pid":' || {pid} || ',"tid":0,"ts":' ||
            {us("t.time")} || ',"args":{{' || {quoted("t.unit")} || ':' || t.value || '}}}}' FROM counter t
            WHERE {own} ORDER BY t.time, t.name, t.device, t.value""",
        )


def _names(process: int, pid: str) -> Iterator[tuple[str, str]]:
    """Metadata events of the process, its threads, and the devices."""
    head = """SELECT '{"ph":"M","name":"""
    yield (
        "tracks",
        f"""{head}"process_name","pid":' || pid || ',"tid":0,"ts":0.000,"args":{{"name":' || {quoted("command")} ||
        '}}}}' FROM process WHERE process = {process}""",
    )
    yield (
        "tracks",
        f"""{head}"process_labels","pid":' || pid || ',"tid":0,"ts":0.000,"args":{{"labels":"CPU"}}}}'
        FROM process WHERE process = {process}""",
    )
    yield (
        "tracks",
        f"""{head}"process_labels","pid":' || "index" || ',"tid":0,"ts":0.000,"args":{{"labels":"GPU ' || "index" ||
        '"}}}}' FROM device WHERE device IN (SELECT device FROM stream WHERE process = {process})""",
    )
    yield (
        "tracks",
        f"""{head}"thread_name","pid":' || {pid} || ',"tid":' || thread || ',"ts":0.000,"args":{{"name":' ||
        {quoted("name")} || '}}}}' FROM thread WHERE process = {process} AND name IS NOT NULL AND thread >= 0""",
    )
    yield (
        "tracks",
        f"""{head}"thread_name","pid":' || coalesce(t.device, 0) || ',"tid":' || stream || ',"ts":0.000,"args":{{"name":' ||
        {quoted("coalesce(t.name, 'stream ' || stream)")} || '}}}}' FROM stream t
        WHERE process = {process} AND device IS NOT NULL""",
    )


def _slices(pid: str, stacks: bool) -> dict[str, str]:
    """One statement per table; `{where}` and `{process}` are placeholders. `stacks`: calls and operators show theirs."""
    made = {}
    runtime = """CASE WHEN t.function LIKE 'cu%' AND t.function NOT LIKE 'cuda%' THEN 'cuda_driver' ELSE 'cuda_runtime' END"""
    stack = """(SELECT to_json(string_agg(frame, ';' ORDER BY depth DESC))::VARCHAR FROM frames f WHERE f.id = t.stack
        AND NOT EXISTS (SELECT 1 FROM stack s WHERE s.id = t.stack AND s.method = 'forward'))"""
    shown = (("Call stack", stack),) if stacks else ()
    called = (("correlation", "t.correlation"), *shown)
    launch_columns = (("kernel", "to_json(t.demangled)::VARCHAR"), *_SHAPE, _SHARED)
    for table, more in (("launch", launch_columns), ("api", (("bytes", "t.bytes"),))):
        arguments = members(*called, *more)
        made[table] = (
            f"SELECT {complete(runtime, quoted('t.function'), pid, 't.thread', arguments)} FROM {table} t"
        )
    arguments = members(("External id", "t.correlation"), ("Sequence number", "t.sequence"), ("Input Dims", "t.shapes"),
                        *shown)  # fmt: skip
    arguments = f"concat_ws(',', nullif({arguments}, ''), nullif({_ATTRIBUTES}, ''))"
    made["op"] = f"""SELECT {complete("'cpu_op'", quoted("t.name"), pid, "t.thread", arguments)} FROM op t"""
    name = quoted("t.demangled")
    arguments = members(("queued", "coalesce(t.queued, 0)"), *_DEVICE, ("registers per thread", "t.registers"), _SHARED,
                        *_SHAPE, *_GRAPH)  # fmt: skip
    made["kernel"] = f"""SELECT {complete("'kernel'", name, *_TRACK, arguments)} FROM kernel t"""
    source, target = (_case(f"t.{side}_kind", _MEMORY, "'Unknown'") for side in ("source", "destination"))
    name = f"""'"Memcpy ' || t.kind || ' (' || {source} || ' -> ' || {target} || ')"'"""
    arguments = members(*_DEVICE, ("bytes", "t.bytes"), *_ADDRESSES, *_GRAPH)
    made["memcpy"] = f"""SELECT {complete("'gpu_memcpy'", name, *_TRACK, arguments)} FROM memcpy t"""
    arguments = members(*_DEVICE, ("bytes", "t.bytes"), ("address", "t.address"), *_GRAPH)
    name = f"""'"Memset (' || {_case("t.memory_kind", _MEMORY, "'Unknown'")} || ')"'"""
    made["memset"] = f"""SELECT {complete("'gpu_memset'", name, *_TRACK, arguments)} FROM memset t"""
    name = quoted(_case("t.kind", _SYNC, "t.kind"))
    arguments = members(("cuda_sync_kind", name), ("wait_on_cuda_event_id", "t.event"),
                        ("wait_on_cuda_event_record_corr_id", "t.event_sync"), *_DEVICE)  # fmt: skip
    where = "coalesce(t.device, 0)"
    made["sync"] = f"""SELECT {complete("'cuda_sync'", name, where, "t.stream", arguments)} FROM sync t"""
    made = {
        table: f"{_with_frames(sql)} WHERE {{where}} ORDER BY {_ORDER[table]}" for table, sql in made.items()
    }
    made["user_event"] = _user_events(pid)
    made["marker"] = _markers(pid)
    name = "to_json(t.kind)::VARCHAR"
    made["overhead"] = (
        f"""SELECT {complete("'overhead'", name, "'-1'", "0", "''")} FROM overhead t WHERE {{where}} ORDER BY t.start, t.kind"""
    )
    return {table: sql.replace("{", "{{").replace("}", "}}").replace("{{where}}", "{where}").replace("{{process}}", "{process}")
            for table, sql in made.items()}  # fmt: skip


def _with_frames(sql: str) -> str:
    """Stacks as their frames, for statements that show them."""
    if "FROM frames f" not in sql:
        return sql
    return (
        """WITH RECURSIVE chain(id, stack, depth) AS (
        SELECT id, id, depth FROM stack WHERE id IN (SELECT stack FROM TABLE_OF)
      UNION ALL
        SELECT chain.id, s.parent, chain.depth - 1 FROM chain JOIN stack s ON chain.stack = s.id WHERE s.parent IS NOT NULL
    ), frames AS (
        SELECT chain.id, chain.depth, CASE WHEN f.file IS NULL OR f.line IS NULL THEN f.function
          ELSE f.file || '(' || f.line || '): ' || f.function END AS frame
        FROM chain JOIN stack s ON chain.stack = s.id JOIN frame f ON s.frame = f.id
    ) """.replace("TABLE_OF", sql.rsplit("FROM ", 1)[1].split()[0] + " WHERE stack IS NOT NULL")
        + sql
    )


def _user_events(pid: str) -> str:
    """The program's own events, with their kind and attributes."""
    arguments = f"""concat_ws(',', '"kind":' || {quoted("t.kind")}, nullif({_ATTRIBUTES}, ''))"""
    sql = complete("'user_event'", quoted("t.name"), pid, "t.thread", arguments)
    return (
        f"SELECT {sql} FROM user_event t WHERE {{where}} ORDER BY t.start, t.duration DESC, t.thread, t.name"
    )


def _markers(pid: str) -> str:
    """Ranges and instants; Python functions get ids again, where a caller is the last one begun with the caller's stack."""
    category = """CASE WHEN t.category = 'python_function' THEN 'python_function'
        WHEN t.category IN ('gpu_user_annotation', 'Trace') THEN t.category ELSE 'user_annotation' END"""
    python = members(("Python parent id", "coalesce(t.caller::VARCHAR, 'null')"), ("Python id", "t.number"))
    arguments = f"CASE WHEN t.category = 'python_function' THEN {python} ELSE {_ATTRIBUTES} END"
    gpu = "regexp_extract_all(h.name, '\\d+')"
    tid = f"""CASE WHEN t.category = 'gpu_user_annotation' THEN
        coalesce((SELECT {gpu}[2] FROM thread h WHERE h.thread = t.thread AND h.process = t.process), '0')
        WHEN t.thread < 0 THEN to_json((SELECT h.name FROM thread h WHERE h.thread = t.thread AND h.process = t.process))::VARCHAR
        ELSE t.thread::VARCHAR END"""
    place = f"""CASE WHEN t.category = 'gpu_user_annotation' THEN
        coalesce((SELECT {gpu}[1] FROM thread h WHERE h.thread = t.thread AND h.process = t.process), '0')
        ELSE {pid}::VARCHAR END"""
    instant = f"""'{{"ph":"i","cat":"' || coalesce(t.category, '') || '","s":"t","name":' || coalesce({quoted("t.name")}, '""')
        || ',"pid":' || {pid} || ',"tid":' || coalesce({tid}, '0') || ',"ts":' || {us("t.start")}
        || ',"args":{{' || coalesce({_ATTRIBUTES}, '') || '}}}}'"""
    return f"""
        WITH numbered AS (SELECT *, row_number() OVER (ORDER BY start, duration DESC, depth_of, thread, name) AS number FROM (
            SELECT m.*, s.parent AS above, s.depth AS depth_of FROM marker m LEFT JOIN stack s ON m.stack = s.id
            WHERE m.process = {{process}} AND m.category = 'python_function')),
        called AS (SELECT n.*, c.number AS caller FROM numbered n ASOF LEFT JOIN numbered c
            ON n.thread = c.thread AND n.above = c.stack AND n.number > c.number),
        t AS (SELECT * EXCLUDE (above, depth_of) FROM called UNION ALL BY NAME
            SELECT *, NULL AS number, NULL AS caller FROM marker WHERE process = {{process}}
              AND category IS DISTINCT FROM 'python_function')
        SELECT CASE WHEN t.kind = 'instant' THEN {instant} ELSE {complete(category, quoted("t.name"), place, tid, arguments)} END
        FROM t WHERE {{where}} ORDER BY t.number NULLS FIRST, t.start, t.duration DESC, t.thread, t.name"""


def _arrows(trace: StoredTrace, process: int, pid: str) -> Iterator[tuple[str, str]]:
    """ac2g from calls to their work, fwdbwd between operators; they are not counted as events."""
    work = " UNION ALL ".join(
        f"SELECT correlation, start, device, stream FROM {table} WHERE process = {process} AND start IS NOT NULL"
        for table in ("kernel_ids", "memcpy", "memset")
    )
    calls = " UNION ALL ".join(
        f"SELECT correlation, start, thread FROM {table} WHERE process = {process}"
        for table in ("launch_ids", "api")
    )
    tail = """',"cat":"ac2g","name":"ac2g"'"""
    yield (
        "arrows",
        f"""
        SELECT '{{"ph":"s","id":' || t.correlation || ',"pid":' || {pid} || ',"tid":' || t.thread || ',"ts":' || {us("t.start")}
        || {tail} || '}}' FROM ({calls}) t WHERE t.correlation IN (SELECT correlation FROM ({work}))
        ORDER BY t.start, t.thread, t.correlation""",
    )
    yield (
        "arrows",
        f"""
        SELECT '{{"ph":"f","id":' || t.correlation || ',"pid":' || {_TRACK[0]} || ',"tid":' || {_TRACK[1]}
        || ',"ts":' || {us("t.start")} || {tail} || ',"bp":"e"}}' FROM ({work}) t
        WHERE t.correlation IN (SELECT correlation FROM ({calls})) ORDER BY t.start, t.device, t.stream, t.correlation""",
    )
    if not trace.count("flow"):
        return
    for phase, side, more in (("s", "from", ""), ("f", "to", ',"bp":"e"')):
        yield (
            "arrows",
            f"""
            SELECT '{{"ph":"{phase}","id":' || hash(f.from_correlation, f.to_correlation) % 2147483647
            || ',"pid":' || {pid} || ',"tid":' || t.thread || ',"ts":' || {us("t.start")}
            || ',"cat":"fwdbwd","name":"fwdbwd"{more}}}'
            FROM flow f JOIN op_ids t ON t.correlation = f.{side}_correlation AND t.process = f.process
            WHERE f.kind = 'forward-backward' AND f.process = {process} ORDER BY t.start, t.thread, t.correlation""",
        )


def _memory(trace: StoredTrace, pid: str) -> str:
    rows = "memory"
    if trace.sql("SELECT count(*) FROM memory WHERE operation = 'free' AND bytes IS NULL").fetchall()[0][0]:
        # In Kineto, a free is an allocation of negative size.
        rows = f"(SELECT * REPLACE (coalesce(bytes, allocated) AS bytes) FROM ({changes()}))"
    sign = "CASE t.operation WHEN 'free' THEN -t.bytes ELSE t.bytes END"
    arguments = members(
        ("Total Reserved", "t.pool_size"), ("Total Allocated", "t.pool_used"), ("Bytes", f"coalesce({sign}, 0)"),
        ("Addr", "t.address"), ("Device Id", "coalesce(t.device, -1)"),
        ("Device Type", "CASE WHEN t.device IS NULL THEN 0 ELSE 1 END"),
    )  # fmt: skip
    return f"""SELECT '{{"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":' || {pid} || ',"tid":' ||
        coalesce(t.thread, 0) || ',"ts":' || {us("t.time")} || ',"args":{{' || {arguments} || '}}}}' FROM {rows} t"""
