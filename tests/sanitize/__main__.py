"""`python -m tests.sanitize [asan|ubsan|tsan|valgrind …]`: the native parts under sanitizers; `make sanitize`.

For each: the library is built by its CMake preset, rings are stressed by many threads, and the CUDA stand-in's programs are
recorded with that library in them, each by a launcher with a plain one. ThreadSanitizer must also report a planted race, which
shows that it looks.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.integration.recorded import environment, launcher
from tests.standin import recording
from warpsight import _native

ROOT = Path(__file__).resolve().parents[2]
FOUND = 66
TIMEOUT = 900


@dataclass(frozen=True)
class Sanitizer:
    """How to compile for it, and what a program is run with."""

    name: str
    flags: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    prefix: tuple[str, ...] = ()
    #: Rows of each thread of the stress, and launches of each of the stand-in's.
    rows: int = 20_000


_SUPPRESSIONS = ROOT / "tests" / "sanitize" / "tsan.supp"
SANITIZERS = {
    one.name: one
    for one in (
        Sanitizer("asan", ("-fsanitize=address",), (("ASAN_OPTIONS", f"exitcode={FOUND}:detect_leaks=0"),)),
        Sanitizer("ubsan", ("-fsanitize=undefined", "-fno-sanitize-recover=all"),
                  (("UBSAN_OPTIONS", f"exitcode={FOUND}:print_stacktrace=1"),)),
        Sanitizer("tsan", ("-fsanitize=thread", "-Wno-tsan"),
                  (("TSAN_OPTIONS", f"exitcode={FOUND}:suppressions={_SUPPRESSIONS}"),)),
        Sanitizer("valgrind", (), (), ("valgrind", "-q", f"--error-exitcode={FOUND}"), 1000),
    )
}  # fmt: skip
POLICIES = ("newest", "oldest", "wait")
#: Steps of the stand-in's program.
PROGRAMS = (
    ("init", "launch:work:2000", "sync", "graph:5", "sync"),
    ("init", "threads:4:1000", "sync"),
    ("init", "rate:work:2000:1500", "sync"),
)


def main() -> int:
    """Run what was requested; a line for each check, then the totals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sanitizers", nargs="*", metavar="|".join(SANITIZERS))
    asked = parser.parse_args().sanitizers or list(SANITIZERS)
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="sanitize-") as scratch:
        for name in asked:
            for what, problem in _checks(SANITIZERS[name], Path(scratch)):
                print(f"{'FAILED' if problem else 'ok':7} {name}: {what}", flush=True)
                if problem:
                    print(problem[-4000:], flush=True)
                failed, passed = failed + bool(problem), passed + (not problem)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


def _checks(one: Sanitizer, scratch: Path) -> Iterator[tuple[str, str]]:
    place = scratch / one.name
    place.mkdir()
    build = ROOT / "build" / one.name
    for command in (["cmake", "--preset", one.name], ["cmake", "--build", str(build)]):
        done = _run(command, ROOT)
        if done.returncode:
            yield " ".join(command), done.stdout
            return
    stress = _stress(one, place / "stress", build)
    for policy in POLICIES:
        yield (
            f"rings, {policy}",
            _outcome(one, [str(stress), str(place / policy), "8", str(one.rows), policy, "200"], place),
        )
    if one.name == "tsan":
        racy = _stress(one, place / "racy", build, "-DPLANTED_RACE")
        found = _outcome(one, [str(racy), str(place / "planted"), "4", "2000", "wait", "200"], place)
        yield "a planted race is reported", "" if "data race" in found else f"it was not: {found}"
    yield from _recordings(one, place, build)


def _stress(one: Sanitizer, out: Path, build: Path, *more: str) -> Path:
    sources = [ROOT / "tests/unit/native/ring_stress.cpp", *sorted((ROOT / "native/ring").glob("*.cpp"))]
    compiler = recording.compiler() or "c++"
    done = _run([compiler, "-O1", "-g", "-std=c++17", *one.flags, *more, f"-I{build}/native/generated", f"-I{ROOT}/native",
                 *map(str, sources), "-o", str(out), "-lpthread"], ROOT)  # fmt: skip
    assert done.returncode == 0, done.stdout
    return out


def _outcome(one: Sanitizer, command: Sequence[str], place: Path) -> str:
    """What is wrong with a run; empty when nothing is."""
    if "stress" in command[0] or "racy" in command[0]:
        Path(command[1]).mkdir()
    done = _run([*one.prefix, *command], place, dict(one.variables))
    return done.stdout or f"exit code {done.returncode}" if done.returncode else ""


def _recordings(one: Sanitizer, place: Path, build: Path) -> Iterator[tuple[str, str]]:
    headers = recording.cuda_headers()
    if headers is None:
        return
    standin, library = place / "standin", build / "native" / "libwarpsight.so"
    compiler = " ".join((recording.compiler() or "c++", *one.flags))
    subprocess.run(
        [recording.SOURCES / "build.sh", standin, headers], check=True, env={**os.environ, "CXX": compiler}
    )
    inside = [f"{name}={value}" for name, value in one.variables]
    inside += [f"CUDA_INJECTION64_PATH={library}", f"WARPSIGHT_LIBRARY={library}"]
    plain = _native.library_path()
    assert plain is not None
    around = environment(plain, LD_LIBRARY_PATH=str(standin))
    for number, steps in enumerate(PROGRAMS):
        trace = place / f"{number}.warp"
        command = launcher("-q", "--strict", "--sample", "off", "-o", str(trace), "--", "env", *inside, *one.prefix,
                           str(standin / "program"), *steps)  # fmt: skip
        done = _run(command, place, around)
        yield (
            f"recording {' '.join(steps)}",
            f"exit code {done.returncode}\n{done.stdout}" if done.returncode else "",
        )


def _run(
    command: Sequence[str], cwd: Path, more: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(command), cwd=cwd, env={**os.environ, **(more or {})}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=TIMEOUT, check=False)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
