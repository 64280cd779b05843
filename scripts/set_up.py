"""Set up everything in this checkout: system packages, .venv, the native library, warpsight itself.

`make demo` and `make test` call it; it needs only Python 3.10 or newer, and is quick when nothing changed. As
root, or with sudo that asks for no password, it installs missing Debian packages; otherwise it says what is
missing, what will not work without it, and goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import system_packages

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
#: The build directory is kept, so that a change of one file compiles one file.
BUILD = ROOT / "build" / "native"
#: What each purpose needs beside warpsight's own requirements.
EXTRAS: dict[str, list[str]] = {"demo": [], "test": ["dev", "view"], "docs": ["dev", "view", "docs"]}


def say(text: str) -> None:
    """One line about what happens now."""
    print(f"==> {text}", flush=True)


def find_python() -> str:
    """This interpreter when it is new enough, else a newer one on PATH; ends the program when there is none."""
    if sys.version_info >= (3, 10):  # noqa: UP036 - a Python that is too old still parses this file and gets the message
        return sys.executable
    for minor in (13, 12, 11, 10):
        found = shutil.which(f"python3.{minor}")
        if found:
            return found
    sys.exit(
        f"warpsight needs Python 3.10 or newer; {sys.executable} is {platform.python_version()}. Install a newer "
        "one (Debian, Ubuntu: apt-get install python3) or say which: make PYTHON=/path/to/python3.12 demo"
    )


def make_venv() -> None:
    """Create .venv unless a working one is there."""
    works = (
        VENV_PYTHON.exists()
        and not subprocess.run(
            [VENV_PYTHON, "-m", "pip", "--version"], capture_output=True, check=False
        ).returncode
    )
    if works:
        return
    python = find_python()
    say(f"creating .venv with {python}")
    command = [python, "-m", "venv", "--clear", str(VENV)]
    if subprocess.run(command, capture_output=True, check=False).returncode == 0:
        return
    # Debian ships venv without ensurepip; its package is named after the Python.
    minor = subprocess.check_output(
        [python, "-c", "import sys; print(sys.version_info.minor)"], text=True
    ).strip()
    system_packages.install([f"python3.{minor}-venv"], say)
    if subprocess.run(command, check=False).returncode:
        sys.exit(
            f"cannot create a virtual environment: install python3.{minor}-venv (or python3-venv) and try again"
        )


def project_table() -> dict[str, object]:
    """pyproject.toml, read with what this Python has."""
    try:
        import tomllib as toml
    except ModuleNotFoundError:  # Python 3.10: pip brings a reader
        from pip._vendor import tomli as toml  # type: ignore[no-redef]
    with (ROOT / "pyproject.toml").open("rb") as file:
        return toml.load(file)


def requirements(extras: list[str]) -> list[str]:
    """What pip installs: build requirements, dependencies and the extras, those of extras in extras resolved."""
    table = project_table()
    project = table["project"]
    wanted = [*table["build-system"]["requires"], *project["dependencies"]]  # type: ignore[index]
    queue = list(extras)
    while queue:
        for requirement in project["optional-dependencies"][queue.pop()]:  # type: ignore[index]
            if requirement.startswith("warpsight["):
                queue += requirement.removeprefix("warpsight[").rstrip("]").split(",")
            else:
                wanted.append(requirement)
    # Distributions bring a pip that is too old for build settings; CMake and Ninja may be installed already.
    tools = ["pip>=24", *(tool for tool in ("cmake", "ninja") if not shutil.which(tool))]
    return sorted({*wanted, *tools})


def done(stamp: Path, state: str) -> bool:
    """Whether the step of this stamp already ran in this state."""
    return stamp.exists() and stamp.read_text() == state


def install_requirements(extras: list[str]) -> None:
    """Everything from the package index, in one resolution."""
    wanted = requirements(extras)
    stamp = VENV / "requirements.stamp"
    state = "\n".join([sys.version, *wanted])
    if done(stamp, state):
        return
    say(f"installing {len(wanted)} Python packages into .venv")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*pip, *wanted], check=False).returncode:
        sys.exit(
            "pip could not install the packages above; is a Python package index reachable? Offline builds: "
            "docs/how-to/install.md"
        )
    stamp.write_text(state)


def sources() -> Iterator[Path]:
    """Files that decide what is built and installed."""
    yield from (ROOT / name for name in ("pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE"))
    for folder in ("native", "src"):
        yield from sorted(
            p for p in (ROOT / folder).rglob("*") if p.is_file() and "__pycache__" not in p.parts
        )


def build_state(native: bool) -> str:
    """A fingerprint of the sources and of what outside them changes the build."""
    digest = hashlib.sha256(
        repr(
            (
                native,
                os.environ.get("CUDA_HOME"),
                sysconfig.get_platform(),
                Path("/usr/include/CL/cl_layer.h").exists(),
            )
        ).encode()
    )
    for path in sources():
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def build() -> None:
    """Compile the native library and install warpsight into .venv, when a source changed."""
    native = any(shutil.which(compiler) for compiler in ("c++", "g++", "clang++")) or "CXX" in os.environ
    if not native:
        say("no C++ compiler: building without the recorder; traces can be read but not made")
    stamp = VENV / "build.stamp"
    state = build_state(native)
    if done(stamp, state):
        return
    say("building the native library and installing warpsight into .venv")
    environment = {**os.environ, **({} if native else {"WARPSIGHT_NATIVE": "OFF"})}
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-build-isolation",
        "--no-deps",
        "--force-reinstall",
        "-C",
        f"build-dir={BUILD}",
        "-C",
        "cmake.define.WARPSIGHT_WARNINGS_AS_ERRORS=ON",
        str(ROOT),
    ]
    if subprocess.run(command, env=environment, check=False).returncode:
        sys.exit("the build failed; its messages are above")
    stamp.write_text(state)


def main() -> None:
    """Parse the arguments; outside .venv prepare it and go on inside, where pip and the build run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("purpose", choices=("demo", "test", "docs"), help="what the set-up is for")
    parser.add_argument("--no-system", action="store_true", help="leave system packages alone")
    parser.add_argument(
        "--no-build", action="store_true", help="environment only, without building warpsight"
    )
    parser.add_argument(
        "--build-only", action="store_true", help="only build and install warpsight into .venv"
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        if not options.build_only:
            if not options.no_system:
                system_packages.install_missing(options.purpose, say)
            make_venv()
        arguments = [str(VENV_PYTHON), __file__, *sys.argv[1:], "--inside"]
        os.environ["PATH"] = f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
        os.execv(arguments[0], arguments)
    if not options.build_only:
        install_requirements(EXTRAS[options.purpose])
    if not options.no_build:
        build()


if __name__ == "__main__":
    main()
