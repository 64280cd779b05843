"""How patches of accesses end: at a generic address the Sanitizer calls the next one where they leave a predicate set."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from warpsight.device_code.disassembly import find_tool
from warpsight.errors import WarpsightError
from warpsight.formats.events.kinds import KINDS
from warpsight.sass.events.tracing import assemble

#: Accesses that a generic address can make: to global, shared, local and a cluster's memory.
GENERIC = [KINDS[number] for number in (3, 4, 5, 17)]


def functions(cubin: Path) -> dict[str, list[str]]:
    """The instructions of each function."""
    tool = find_tool("nvdisasm")
    assert tool is not None
    text = subprocess.run([tool, "-c", cubin], capture_output=True, text=True, check=True).stdout
    parts = re.split(r"^\.text\.(\w+):", text, flags=re.MULTILINE)
    code = (re.findall(r"/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", part) for part in parts[2::2])
    return dict(zip(parts[1::2], code, strict=True))


@pytest.mark.skipif(
    find_tool("ptxas") is None or find_tool("nvdisasm") is None, reason="no ptxas or nvdisasm"
)
@pytest.mark.parametrize("architecture", [75, 80, 90, 100])
def test_patches_of_accesses_leave_no_predicate_set(architecture: int, tmp_path: Path) -> None:
    try:
        [cubin] = assemble(tmp_path, [architecture])
    except WarpsightError as error:
        pytest.skip(str(error))  # another CUDA's ptxas
    found = functions(cubin)
    used = re.findall(r"@!?P(\d)", "\n".join(found["ws_set_predicates"]))
    assert sorted(used) == list("0123456")
    patches = [name for kind in GENERIC for name in (kind.patch, kind.visit, kind.check) if name in found]
    assert len(patches) == 10
    for name in patches:
        last = max(at for at, line in enumerate(found[name]) if "CALL" in line)
        end = next(at for at, line in enumerate(found[name]) if at > last and line.startswith("RET"))
        assert "ws_set_predicates" in found[name][last], name
        assert not re.search(r"\bP[0-6R]\b", "\n".join(found[name][last : end + 1])), name
