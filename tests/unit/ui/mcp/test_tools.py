import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from warpsight.errors import WarpsightError
from warpsight.model import TraceWriter
from warpsight.ui.mcp import bounds, skill
from warpsight.ui.mcp.bounds import MOST_BYTES, MOST_ROWS, MOST_TEXT
from warpsight.ui.mcp.places import Places
from warpsight.ui.mcp.server import with_errors
from warpsight.ui.mcp.tools import Tools


@pytest.fixture
def roots(tmp_path):
    with TraceWriter(tmp_path / "in" / "run.warp") as writer:
        name = writer.name("k" * 500)
        writer.add("kernel", [{"start": 1000 * i, "duration": 900, "name_id": name, "context": 1, "stream": 7, "device": 0,
                               "process": 0, "graph_level": False} for i in range(400)])  # fmt: skip
    (tmp_path / "secret.json").write_text("{}")
    (tmp_path / "in" / "link.json").symlink_to(tmp_path / "secret.json")
    return tmp_path / "in"


@pytest.mark.parametrize(
    "path",
    [
        "../secret.json",
        "link.json",
        "/etc/passwd",
        "file:///etc/passwd",
        "s3://b/t.warp",
        "none",
        "\0",
        "\ud800",
        "a" * 5000,
    ],
)
def test_nothing_outside_of_the_roots_is_opened(roots, path):
    with pytest.raises(WarpsightError, match="below"):
        Places([roots]).open(path)


def test_traces_are_listed_and_opened_by_that_name(roots):
    places = Places([roots])
    assert "run.warp" in places.listed()
    assert places.open("run.warp") is places.open(str(roots / "run.warp"))
    places.close()


def test_answers_are_bounded(roots):
    tools = Tools(Places([roots]))
    brief = tools.query("run.warp", "SELECT * FROM kernel")
    assert len(json.dumps(brief, default=str)) <= MOST_BYTES
    assert brief["next_cursor"] == len(brief["rows"])
    after = tools.query("run.warp", "SELECT * FROM kernel", cursor=brief["next_cursor"])
    assert after["rows"][0]["start"] == 1000 * len(brief["rows"])
    assert len(tools.query("run.warp", "SELECT * FROM kernel", most_bytes=0)["rows"]) == 1
    found = tools.query("run.warp", "SELECT * FROM kernel", rows=10_000, most_bytes=10**7)
    assert len(found["rows"]) == MOST_ROWS
    assert found["next_cursor"] == MOST_ROWS
    assert len(found["rows"][0]["name"]) == MOST_TEXT
    assert tools.query("run.warp", "SELECT count(*) AS n FROM kernel") == {
        "columns": ["n"],
        "rows": [{"n": 400}],
    }
    found = tools.analyze("run.warp", ["iterations"], rows=5)
    assert len(found["iterations"]["tables"]["iterations"]["rows"]) == 5
    assert (found["rows_in_all"], found["next_cursor"]) == ({"iterations.iterations": 400}, 5)


def test_secrets_are_looked_for_in_what_is_shown(monkeypatch):
    """One text of 100 MB, which a statement makes easily, kept the server busy for four minutes."""
    seen = []
    monkeypatch.setattr(bounds, "shareable", lambda text: seen.append(len(text)) or text)
    answer = bounds.bounded({"rows": [{"text": "x" * 10**7}]})
    assert answer["rows"] == [{"text": "x" * (MOST_TEXT - 1) + "…"}]
    assert bounds.tail("y" * 10**7) == "…" + "y" * (MOST_TEXT - 1)
    assert max(seen) < 10**5


def test_a_damaged_trace_is_named_as_such(roots):
    part = next(roots.glob("run.warp/table=kernel/**/*.parquet"))
    data = pq.read_table(part, partitioning=None)
    place = data.column_names.index("duration")
    pq.write_table(data.set_column(place, "duration", pa.array(["long"] * len(data))), part)
    places = Places([roots])

    def sums(trace):
        places.open(trace)
        raise IndexError(7)

    with pytest.raises(WarpsightError, match="is damaged: table kernel holds string in column duration"):
        with_errors(sums, WarpsightError, places)("run.warp")
    places.close()


@pytest.mark.parametrize("moment", [1e308, float("nan"), -1e30, float("inf")])
def test_moments_that_are_none_are_refused(roots, moment):
    with pytest.raises(WarpsightError, match="is not a time"):
        Tools(Places([roots])).analyze("run.warp", begin_s=moment)


def test_only_reading_statements_run(roots):
    tools = Tools(Places([roots]))
    for sql in ("COPY kernel TO 'x'", "CREATE TABLE t(a INT)", "SELECT * FROM read_csv('/etc/passwd')"):
        with pytest.raises(WarpsightError):
            tools.query("run.warp", sql)


def test_the_skill_is_installed_once_and_never_overwrites_another(tmp_path):
    target, written = skill.install(tmp_path / "skills")
    assert written
    assert target.read_text().startswith("---\nname: warpsight\ndescription: ")
    assert skill.install(tmp_path / "skills") == (target, False)
    target.write_text("mine")
    with pytest.raises(WarpsightError, match="differs"):
        skill.install(tmp_path / "skills")
    assert skill.install(tmp_path / "skills", force=True)[1]


def test_a_statement_that_does_not_end_is_ended(roots):
    places = Places([roots])
    endless = (
        "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE (a.range * b.range) % 7 = 3"
    )
    with pytest.raises(WarpsightError, match=r"not finished after 0\.2 s"):
        Tools(places, query_s=0.2).query("run.warp", endless)
    assert Tools(places).query("run.warp", "SELECT count(*) AS n FROM kernel")["rows"] == [{"n": 400}]


def test_info_goes_on_where_it_stopped(tmp_path):
    with TraceWriter(tmp_path / "run.warp") as writer:
        writer.add("process", [{"process": n, "pid": n, "host": "h", "command": "x", "executable": "x", "start": 0}
                               for n in range(900)])  # fmt: skip
    tools, seen, cursor = Tools(Places([tmp_path])), [], 0
    while cursor is not None:
        found = tools.info("run.warp", cursor=cursor)
        assert len(json.dumps(found)) <= MOST_BYTES
        seen += [row["process"] for row in found["processes"]]
        cursor = found.get("next_cursor")
    assert seen == list(range(900))
