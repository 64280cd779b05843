"""Who uses a GPU, and who may attach to them: by the rules of ptrace(2), on a made-up /proc."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warpsight.machine import nvml, processes

STAT = "{pid} (a (strange) name) S 1 1 1 0 -1 0 0 0 0 0 {user} {system} 0 0 20 0 1 0 {start} 0 0"


def make_proc(folder: Path, *, uid: int, capabilities: int = 0, pid: int = 77) -> Path:
    (folder / "stat").write_text("cpu 1 2 3\nbtime 1000000\n")
    for name, own in ((str(pid), uid), ("self", os.geteuid())):
        entry = folder / name
        entry.mkdir()
        (entry / "status").write_text(
            f"Name:\tx\nUid:\t{own}\t{own}\t{own}\t{own}\nCapEff:\t{capabilities:016x}\n"
        )
        (entry / "cmdline").write_bytes(b"python\0train.py\0--size=2 3\0")
        (entry / "stat").write_text(STAT.format(pid=pid, user=100, system=50, start=500))
    return folder


@pytest.fixture
def scope(tmp_path: Path) -> Path:
    return tmp_path / "ptrace_scope"


@pytest.mark.parametrize(
    ("level", "same_user", "capable", "allowed", "word"),
    [
        (0, True, False, True, "same user"),
        (0, False, False, False, "belongs to"),
        (0, False, True, True, "CAP_SYS_PTRACE"),
        (1, True, False, False, "ptrace_scope is 1"),
        (1, True, True, True, "CAP_SYS_PTRACE"),
        (2, True, False, False, "ptrace_scope is 2"),
        (3, True, True, False, "ptrace_scope is 3"),
    ],
)
def test_attach_permission(
    tmp_path: Path, scope: Path, level: int, same_user: bool, capable: bool, allowed: bool, word: str
) -> None:
    scope.write_text(f"{level}\n")
    uid = os.geteuid() if same_user else os.geteuid() + 4242
    root = tmp_path / "proc"
    root.mkdir()
    proc = make_proc(root, uid=uid, capabilities=1 << 19 if capable else 0)
    found, reason = processes.attach_permission(77, proc, scope)
    assert found is allowed
    assert word in reason


def test_process_of_another_namespace_keeps_what_nvml_told(tmp_path: Path) -> None:
    found = processes.describe(nvml.GpuProcess(5, "GPU-1", 1 << 30, 40), tmp_path)
    assert (found.memory_bytes, found.utilisation, found.user, found.command) == (1 << 30, 40, None, None)
    assert not found.attachable


def test_description_from_proc(tmp_path: Path) -> None:
    proc = make_proc(tmp_path, uid=os.geteuid())
    found = processes.describe(nvml.GpuProcess(77, "GPU-1", None, None), proc)
    tick = os.sysconf("SC_CLK_TCK")
    assert found.start == 1000000 + 500 / tick
    assert found.command == "python train.py --size=2 3"
    assert found.cpu is not None
    assert found.cpu < 1
