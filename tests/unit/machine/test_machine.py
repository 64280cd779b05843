"""Formats, tables and files of the machine package."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from warpsight.errors import WarpsightError
from warpsight.machine import checks, cupti, discovery, links
from warpsight.machine.cuda import cuda_driver


def test_uuid_is_spelt_as_nvidia_does() -> None:
    assert cuda_driver.format_uuid(bytes(range(16))) == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"


def test_bandwidth_from_clock_and_bus() -> None:
    device = cuda_driver.CudaDevice(
        0, "GPU-", "x", 1, {"memory_clock_khz": 1_000_000, "memory_bus_bits": 5120}
    )
    assert device.memory_bandwidth == 1_280_000_000_000
    assert cuda_driver.CudaDevice(0, "GPU-", "x", 1, {}).memory_bandwidth is None


def test_numa_node(tmp_path: Path) -> None:
    for pci, text in (("0000:01:00.0", "1\n"), ("0000:02:00.0", "-1\n")):
        (tmp_path / pci).mkdir()
        (tmp_path / pci / "numa_node").write_text(text)
    assert discovery.numa_node("0000:01:00.0", tmp_path) == 1
    assert discovery.numa_node("0000:02:00.0", tmp_path) is None, "the kernel says -1 when it does not know"
    assert discovery.numa_node("0000:03:00.0", tmp_path) is None
    assert discovery.numa_node(None) is None


def test_known_bad_cupti_versions_are_quoted() -> None:
    assert any("no kernel records" in text for text in cupti.known_problems(22))
    assert cupti.known_problems(24) == []


def test_recorder_and_doctor_quote_the_same_problems() -> None:
    source = Path(__file__).parents[3] / "native/cuda/versions.cpp"
    # As the compiler sees it: adjacent literals are one, line breaks are blanks.
    text = re.sub(r"\s+", " ", re.sub(r'"\s+"', "", source.read_text()))
    for first, last, problem in cupti.KNOWN_PROBLEMS:
        assert f'{{{first}, {last}, "{problem}"}}' in text


def test_links_are_kept_and_read_back(tmp_path: Path) -> None:
    link = links.Link("cuda", "host", "GPU-1", "pinned", 64, 5e10)
    path = links.keep([link], tmp_path / "cache" / "links.json")
    assert links.kept(path) == [link]
    assert path.stat().st_mode & 0o777 == 0o600
    assert links.kept(tmp_path / "none.json") == []
    path.write_text("{")
    with pytest.raises(WarpsightError, match="bench --links"):
        links.kept(path)


def test_every_finding_of_the_doctor_says_why_and_what_to_do() -> None:
    for check in checks.run():
        assert check.state in (checks.OK, checks.DEGRADED, checks.MISSING)
        assert check.why
        json.dumps(check.to_json())


def test_a_check_that_breaks_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def disk() -> checks.Check:
        raise OSError("stale handle")

    monkeypatch.setattr(checks, "RECORDERS", ())
    monkeypatch.setattr(checks, "HOST", (disk,))
    (found,) = checks.run()
    assert found.state == checks.DEGRADED
    assert "stale handle" in found.why
