"""Modules of CUDA programs: which one each kernel comes from, and keeping their code; against the stand-in."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.integration.recorded import TIMEOUT, Recorded, environment, launcher
from tests.standin import recording

KERNELS = "SELECT n.name, m.module, m.checksum FROM kernel k LEFT JOIN module m USING (process, module) " \
          "JOIN name n ON k.name_id = n.id ORDER BY k.start"  # fmt: skip


@pytest.fixture(scope="session")
def standin(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the built stand-in and its program."""
    headers = recording.cuda_headers()
    if headers is None or recording.compiler() is None:
        pytest.skip("building the stand-in needs a C++ compiler and CUDA's headers")
    folder = tmp_path_factory.mktemp("standin")
    subprocess.run([recording.SOURCES / "build.sh", folder, headers], check=True)
    return folder


def run(standin: Path, library: Path, path: Path, *steps: str, options: tuple[str, ...] = ()) -> Recorded:
    command = launcher("-o", str(path), "--backend", "cuda", "--sample", "off", "--counters", "off", *options,
                       "--", str(standin / "program"), "init", *steps, "sync")  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False,
                          env=environment(library, LD_LIBRARY_PATH=str(standin)))  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Recorded(done.returncode, done.stdout, done.stderr, path)


def test_a_kernel_names_the_module_that_holds_it(standin: Path, library: Path, tmp_path: Path) -> None:
    found = run(standin, library, tmp_path / "a.warp", "module:gemm,add:5", "module:relu:6", "launch:gemm:1",
                "launch:relu:1", "launch:add:1", "launch:elsewhere:1")  # fmt: skip
    rows = {name: (module, checksum) for name, module, checksum in found.sql(KERNELS)}
    assert [rows[name][0] for name in ("gemm", "add", "relu", "elsewhere")] == [1, 1, 2, None]
    assert rows["gemm"][1] == rows["add"][1] != rows["relu"][1]
    sizes = dict(found.sql("SELECT module, bytes FROM module"))  # type: ignore[arg-type]
    assert all(sizes[module] == checksum >> 32 for module, checksum in rows.values() if module)


def test_a_name_in_two_modules_is_left_open_unless_they_are_the_same(
    standin: Path, library: Path, tmp_path: Path
) -> None:
    found = run(standin, library, tmp_path / "a.warp", "module:same,other:5", "module:same:6", "module:same,other:7",
                "launch:same:1", "launch:other:1")  # fmt: skip
    assert [(name, module) for name, module, _ in found.sql(KERNELS)] == [("same", None), ("other", 1)]


def test_an_unloaded_module_holds_nothing(standin: Path, library: Path, tmp_path: Path) -> None:
    found = run(standin, library, tmp_path / "a.warp", "module:gemm:5:a", "launch:gemm:1", "sync", "unload:5",
                "module:gemm:6:b", "launch:gemm:1")  # fmt: skip
    assert [module for _, module, _ in found.sql(KERNELS)] == [1, 2]


def test_a_damaged_image_costs_nothing(standin: Path, library: Path, tmp_path: Path) -> None:
    found = run(standin, library, tmp_path / "a.warp", "module:damaged:5", "launch:gemm:1")
    assert found.sql(KERNELS) == [("gemm", None, None)]
    assert found.sql("SELECT count(*) FROM module") == [(1,)]


def test_each_cubin_is_kept_once_under_its_checksum(standin: Path, library: Path, tmp_path: Path) -> None:
    found = run(standin, library, tmp_path / "a.warp", "module:gemm:5", "module:gemm:6", "module:relu:7",
                options=("--cubins",))  # fmt: skip
    kept = sorted((found.path / "cubins").iterdir())
    checksums = sorted({f"{checksum:016x}.cubin" for (checksum,) in found.sql("SELECT checksum FROM module")})
    assert [file.name for file in kept] == checksums
    assert len(kept) == 2
    for file in kept:
        assert file.read_bytes().startswith(b"\x7fELF")
        assert file.stat().st_size == int(file.stem, 16) >> 32
        assert file.stat().st_mode & 0o777 == 0o600


def test_cubins_are_kept_only_when_asked(standin: Path, library: Path, tmp_path: Path) -> None:
    found = run(standin, library, tmp_path / "a.warp", "module:gemm:5", "launch:gemm:1")
    assert not (found.path / "cubins").exists()


def test_the_kernel_log_has_the_checksum_of_the_module(standin: Path, library: Path, tmp_path: Path) -> None:
    log = tmp_path / "k.ndjson"
    found = run(standin, library, tmp_path / "a.warp", "module:gemm:5", "launch:gemm:2", "graph:1",
                options=("--kernel-log", str(log), "--log-stacks", "none"))  # fmt: skip
    ((checksum,),) = found.sql("SELECT checksum FROM module")
    assert log.read_text().count(f'"kernel_name":"gemm","kernel_checksum":"{checksum:016x}"') == 2
    assert len(log.read_text().splitlines()) == found.sql("SELECT count(*) FROM kernel")[0][0] > 2


def test_a_pattern_that_matched_nothing_is_told_when_the_program_ends(
    standin: Path, library: Path, tmp_path: Path
) -> None:
    found = run(
        standin,
        library,
        tmp_path / "a.warp",
        "launch:gemm:1",
        options=("--kernels", "ge*", "--kernels", "x y"),
    )
    assert found.sql("SELECT cause, severity FROM loss WHERE cause LIKE '%pattern%'") == [
        ("kernel pattern 'x y' matched no kernel", "note")
    ]
