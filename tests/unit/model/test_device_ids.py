"""Devices keep their own number while it is free, and a device that is not there is refused with those that are."""

from pathlib import Path

import pytest

from warpsight.errors import UsageError
from warpsight.model import TraceWriter, device_ids
from warpsight.model import open as open_trace


def test_a_device_keeps_its_number_unless_another_has_it() -> None:
    taken: set[int] = set()
    given = []
    for own in (3, 3, None, "0000:01", 1 << 20, 0, -1, 32_767, 32_767):
        given.append(device_ids.new_id(own, taken))
        taken.add(given[-1])
    assert given == [3, 4, 0, 1, 2, 5, 6, 32_767, 7]
    with pytest.raises(UsageError, match="more than 32,768 devices"):
        device_ids.new_id(0, range(1 << 15))


def test_a_device_is_known_by_its_row_or_its_work(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t.warp") as writer:
        writer.add(
            "device",
            [
                {
                    "device": 0,
                    "index": 0,
                    "uuid": "GPU-0",
                    "name": "H200",
                    "vendor": "NVIDIA",
                    "platform": "cuda",
                }
            ],
        )
        writer.add("memset", [{"start": 5, "duration": 1, "bytes": 4, "value": 0, "device": 2, "context": 1, "stream": 1,
                               "process": 0, "asynchronous": False, "memory_kind": "device"}])  # fmt: skip
    with open_trace(tmp_path / "t.warp") as trace:
        for chosen in ((), (0,), (2,), (0, 2)):
            device_ids.check(trace, chosen)
        with pytest.raises(UsageError, match=r"there is no device 1; the trace has 0 \(H200\), 2"):
            device_ids.check(trace, (0, 1))
