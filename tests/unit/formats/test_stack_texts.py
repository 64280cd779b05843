"""Texts of host stacks in and out: extended folded, perf script, bpftrace, folded, speedscope."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from warpsight.formats.errors import FormatError
from warpsight.formats.folded import plain as folded
from warpsight.formats.importing import import_files, open_any
from warpsight.formats.selection import Selection
from warpsight.model import open as open_trace
from warpsight_plugins.speedscope import writer as speedscope

GOLDEN = Path(__file__).parents[2] / "golden" / "formats"


#: What 64 bits hold, and one more.
LAST = (1 << 63) - 1


@pytest.mark.parametrize("command", ["python", "my tool"])
def test_times_of_a_wall_clock_are_read_and_those_beyond_64_bits_are_counted(
    tmp_path: Path, command: str
) -> None:
    times = (1_790_000_000_123_456_789, 5, LAST, LAST + 1, 10 * LAST)
    lines = (f"{time} {command} 42 43 0 main;step;cudaLaunchKernel\n" for time in times)
    (tmp_path / "stacks.txt").write_text("".join(lines))
    with open_any(tmp_path / "stacks.txt") as trace:
        assert trace.sql("SELECT start, thread FROM launch ORDER BY start").fetchall() == [
            (time, 43) for time in sorted(times[:3])
        ]
        assert trace.sql("SELECT count FROM loss WHERE severity = 'lost'").fetchall() == [(2,)]


def test_bpftrace_times_beyond_64_bits_are_no_heads_of_blocks(tmp_path: Path) -> None:
    blocks = (
        f"{time} python 42 43 cudaLaunchKernel\n        step+4\n        main+8\n\n"
        for time in (LAST, LAST + 1)
    )
    (tmp_path / "stacks.txt").write_text("Attaching 1 probe...\n" + "".join(blocks))
    with open_any(tmp_path / "stacks.txt") as trace:
        assert trace.sql("SELECT start FROM launch").fetchall() == [(LAST,)]


def test_extended_folded_lines_become_calls_with_their_stacks() -> None:
    path = GOLDEN / "extended-folded" / "stacks.txt"
    lines = [line for line in path.read_text().splitlines() if line.strip()]
    with open_any(path) as trace:
        rows = trace.sql("SELECT start, thread, stack, function FROM launch ORDER BY start").fetchall()
        frames = trace.stacks(row[2] for row in rows)
        times = sorted(int(line.split()[0]) for line in lines)
        assert [row[0] for row in rows] == times
        first = next(line for line in lines if line.startswith(str(times[0])))
        assert ";".join(frames[rows[0][2]]) == first.rpartition(" 1 ")[2]


def test_a_command_with_blanks_and_colours_are_read(tmp_path: Path) -> None:
    path = tmp_path / "stacks.txt"
    path.write_text(
        "\x1b[32m100 Thread-1 (work) 7 8 1 main;\x1b[0mcudaLaunchKernel\n\n200 x 7 7 1 main;cuLaunchKernelEx\nbad line\n"
    )
    with open_any(path) as trace:
        assert trace.sql("SELECT start, thread, function FROM launch ORDER BY 1").fetchall() == [
            (100, 8, "cudaLaunchKernel"), (200, 7, "cuLaunchKernelEx")]  # fmt: skip
        assert trace.sql("SELECT name FROM thread WHERE thread = 8").fetchall() == [("Thread-1 (work)",)]
        assert trace.sql("SELECT count FROM loss WHERE severity = 'lost'").fetchall() == [(1,)]


def test_perf_script_times_are_exact_and_stacks_whole() -> None:
    path = GOLDEN / "perf-script" / "uprobe.txt"
    heads = re.findall(r"^prog3 (\d+)/(\d+) +\[\d+\] (\d+)\.(\d{9}): ", path.read_text(), re.MULTILINE)
    with open_any(path) as trace:
        rows = trace.sql("SELECT start, thread, function, stack FROM launch ORDER BY start").fetchall()
        assert [(start, thread) for start, thread, _, _ in rows] == [
            (int(s + f), int(tid)) for _, tid, s, f in heads
        ]
        assert {function for _, _, function, _ in rows} == {"cudaLaunchKernel"}
        texts = {
            ";".join(f.split(" (")[0] for f in frames) for frames in trace.stacks(r[3] for r in rows).values()
        }
    assert any(text.endswith("main;forward;cudaLaunchKernel") for text in texts)
    assert any(text.endswith("work;backward;cudaLaunchKernel") for text in texts)


def test_perf_script_with_microseconds_and_thread_ids_only(tmp_path: Path) -> None:
    path = tmp_path / "perf.txt"
    path.write_text(
        "python3  4711 [001] 12.000345:     250000 cpu-clock:pppH: \n"
        "\t    55d0 main+0x10 (/bin/x (deleted))\n\n"
        "python3  4712 [001] 12.000346:     250000 cpu-clock:pppH: \n"
        "\t 7f00 [unknown] ([unknown])\n\t    55d0 main+0x10 (/bin/x)\n"
    )
    with open_any(path) as trace:
        rows = trace.sql("SELECT time, thread, stack FROM sample ORDER BY time").fetchall()
        assert [(time, thread) for time, thread, _ in rows] == [
            (12_000_345_000, 4711),
            (12_000_346_000, 4712),
        ]
        assert trace.stacks([rows[1][2]])[rows[1][2]] == ("main (/bin/x)", "[unknown] ([unknown])")


def test_bpftrace_blocks_and_maps(tmp_path: Path) -> None:
    with open_any(GOLDEN / "bpftrace" / "timed.txt") as trace:
        assert trace.count("launch") + trace.count("sample") == 20
        stack = trace.sql("SELECT stack FROM launch").fetchall()[0][0]
        assert [f.split(" (")[0] for f in trace.stacks([stack])[stack]][-3:] == [
            "main",
            "forward",
            "cudaLaunchKernel",
        ]
    with open_any(GOLDEN / "bpftrace" / "maps.txt") as trace:
        assert trace.sql("SELECT duration FROM user_event ORDER BY 1").fetchall() == [(8,), (12,)]


def test_folded_stacks_come_back_as_they_were(tmp_path: Path) -> None:
    lines = [
        "main;a b;cudaLaunchKernel;[GPU_Kernel]_Z3addPf 17",
        "main;other 5",
        "main;a b;cudaLaunchKernel;[GPU_Kernel]gemm 3",
    ]
    path = tmp_path / "x.folded"
    path.write_text("\n".join(lines) + "\n")
    with open_any(path) as trace:
        assert trace.sql("SELECT short, duration FROM kernel ORDER BY 2").fetchall() == [
            ("gemm", 3),
            ("add", 17),
        ]
        out = io.BytesIO()
        folded.write(trace, out, Selection())
    expected = sorted(line.replace("_Z3addPf", "add(float*)") for line in lines)
    assert out.getvalue().decode().splitlines() == expected


def test_speedscope_profiles_of_every_kind() -> None:
    with open_any(GOLDEN / "speedscope" / "all_kinds.speedscope.json") as trace:
        ranges = trace.sql("SELECT name, start, duration, depth FROM marker ORDER BY start").fetchall()
        assert ranges == [("main", 0, 100_500, 0), ("work", 10_250, 29_875, 1), ("leaf", 50_000, 10_000, 1)]
        samples = trace.sql("SELECT time, stack IS NULL FROM sample ORDER BY time").fetchall()
        assert samples == [(5_000_000, False), (6_000_000, False), (6_500_000, False), (7_500_000, True)]
        weights = trace.sql("SELECT name, duration FROM user_event WHERE thread = 0 ORDER BY 2").fetchall()
        assert weights == [("work", 1), ("leaf", 2), ("work", 1024), ("leaf", 2048)]


def test_what_is_written_for_speedscope_reads_back_with_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "x.folded"
    path.write_text("main;launch;[GPU_Kernel]gemm 3000\nmain;launch;[GPU_Kernel]add 500\n")
    with open_any(path) as trace:
        out = io.BytesIO()
        counts = speedscope.write(trace, out, Selection())
    assert counts == {"profiles": 1, "samples": 2, "unplaced": 0}
    document = json.loads(out.getvalue())
    names = [frame["name"] for frame in document["shared"]["frames"]]
    (profile,) = document["profiles"]
    told = {
        ";".join(names[f] for f in s): w for s, w in zip(profile["samples"], profile["weights"], strict=True)
    }
    assert told == {"main;launch;gemm": 3000, "main;launch;add": 500}
    (tmp_path / "y.speedscope.json").write_bytes(out.getvalue())
    import_files([tmp_path / "y.speedscope.json"], tmp_path / "y.warp")
    with open_trace(tmp_path / "y.warp") as trace:
        assert trace.sql("SELECT sum(duration) FROM user_event").fetchall() == [(3500,)]


def test_a_speedscope_file_that_closes_what_is_not_open_is_refused(tmp_path: Path) -> None:
    document = json.loads((GOLDEN / "speedscope" / "all_kinds.speedscope.json").read_text())
    document["profiles"][0]["events"][1]["type"] = "C"
    path = tmp_path / "x.speedscope.json"
    path.write_text(json.dumps(document))
    with pytest.raises(FormatError, match=r"profile 0 .* not the innermost open one"):
        open_any(path)


@pytest.mark.parametrize("closed", [True, False])
def test_frames_that_a_speedscope_file_never_closes_are_open_and_told(tmp_path: Path, closed: bool) -> None:
    events = [{"type": "O", "frame": 0, "at": 0}, {"type": "O", "frame": 1, "at": 5}, {"type": "C", "frame": 1, "at": 9},
              {"type": "O", "frame": 1, "at": 20}]  # fmt: skip
    ends = [{"type": "C", "frame": 1, "at": 30}, {"type": "C", "frame": 0, "at": 30}]
    profile = {
        "type": "evented",
        "name": "main thread",
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": 30,
    }
    document = {"$schema": "https://www.speedscope.app/file-format-schema.json",
                "shared": {"frames": [{"name": "main"}, {"name": "work"}]},
                "profiles": [{**profile, "events": events + ends * closed}]}  # fmt: skip
    path = tmp_path / "x.speedscope.json"
    path.write_text(json.dumps(document))
    with open_any(path) as trace:
        ranges = trace.sql("SELECT name, start, duration, open FROM marker ORDER BY start").fetchall()
        told = trace.sql("SELECT count, cause, severity FROM loss").fetchall()
    still = not closed
    assert ranges == [("main", 0, 30, still), ("work", 5, 4, False), ("work", 20, 10, still)]
    if closed:
        assert not told
    else:
        ((count, cause, severity),) = told
        assert (count, severity) == (2, "lost")
        assert "profile 0 (main thread)" in cause and "never closed" in cause


@pytest.mark.parametrize("number", [99, -1, "0", 1.5, True])
@pytest.mark.parametrize("profile", ["evented", "sampled", "weights"])
def test_a_frame_that_a_speedscope_file_does_not_have_is_named(
    tmp_path: Path, number: object, profile: str
) -> None:
    document = json.loads((GOLDEN / "speedscope" / "all_kinds.speedscope.json").read_text())
    place = {
        "evented": next(i for i, p in enumerate(document["profiles"]) if p["type"] == "evented"),
        "sampled": next(i for i, p in enumerate(document["profiles"]) if p["unit"].endswith("seconds")
                        and p["type"] == "sampled"),
        "weights": next(i for i, p in enumerate(document["profiles"]) if p["unit"] == "bytes"),
    }[profile]  # fmt: skip
    chosen = document["profiles"][place]
    if profile == "evented":
        chosen["events"][0]["frame"] = number
    else:
        chosen["samples"][0] = [number]
    path = tmp_path / "x.speedscope.json"
    path.write_text(json.dumps(document))
    with pytest.raises(FormatError, match=rf"profile {place} .*frame {number!r} is .*shared\.frames"):
        open_any(path)


def test_a_field_that_a_speedscope_profile_lacks_is_named(tmp_path: Path) -> None:
    document = json.loads((GOLDEN / "speedscope" / "all_kinds.speedscope.json").read_text())
    del document["profiles"][0]["unit"]
    path = tmp_path / "x.speedscope.json"
    path.write_text(json.dumps(document))
    with pytest.raises(FormatError, match="profile 0 has no field 'unit'"):
        open_any(path)
