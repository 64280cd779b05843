"""Debian packages that Python's index does not have: which are missing, why they matter, and how to install them."""

from __future__ import annotations

import ctypes.util
import glob
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

Say = Callable[[str], None]


@dataclass(frozen=True)
class SystemPackage:
    """One Debian package, how to see that it is not needed, and what does not work without it."""

    name: str
    present: Callable[[], bool]
    without: str
    purposes: tuple[str, ...] = ("demo", "test")


def _program(*names: str) -> Callable[[], bool]:
    return lambda: any(shutil.which(name) for name in names)


def _file(*patterns: str) -> Callable[[], bool]:
    return lambda: any(glob.glob(pattern) for pattern in patterns)


def _opencl_device() -> bool:
    """Some vendor's OpenCL driver is registered; which devices it has is seen only when it runs."""
    return bool(glob.glob("/etc/OpenCL/vendors/*.icd") or os.environ.get("OCL_ICD_VENDORS"))


PACKAGES = (
    SystemPackage("g++", _program("c++", "g++", "clang++"), "the recorder cannot be compiled"),
    SystemPackage(
        "opencl-headers", _file("/usr/include/CL/cl_layer.h"), "the OpenCL recorder is left out of the build"
    ),
    SystemPackage(
        "ocl-icd-libopencl1",
        lambda: ctypes.util.find_library("OpenCL") is not None,
        "OpenCL programs do not start",
    ),
    SystemPackage("pocl-opencl-icd", _opencl_device, "there is no OpenCL device on the CPU"),
    SystemPackage(
        "ocl-icd-opencl-dev",
        _file("/usr/lib/*/libOpenCL.so", "/usr/lib64/libOpenCL.so"),
        "tests that compile OpenCL programs are skipped",
        ("test",),
    ),
    SystemPackage(
        "g++-aarch64-linux-gnu",
        lambda: platform.machine() != "x86_64" or shutil.which("aarch64-linux-gnu-g++") is not None,
        "nothing is compiled for aarch64",
        ("test",),
    ),
    SystemPackage(
        "qemu-user-static",
        lambda: platform.machine() != "x86_64" or shutil.which("qemu-aarch64-static") is not None,
        "what is compiled for aarch64 is not run",
        ("test",),
    ),
    SystemPackage(
        "chromium",
        _program("chromium", "chromium-browser", "google-chrome"),
        "tests that look at pages in a browser are skipped",
        ("test",),
    ),
)


def _prefix() -> list[str] | None:
    """How to become root without being asked anything; None when there is no way."""
    if not shutil.which("apt-get"):
        return None
    if os.geteuid() == 0:
        return []
    if (
        shutil.which("sudo")
        and not subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode
    ):
        return ["sudo", "-n"]
    return None


def _apt_get(prefix: list[str], *arguments: str) -> bool:
    command = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", *arguments]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode:
        print(*result.stdout.splitlines()[-3:], *result.stderr.splitlines()[-5:], sep="\n")
    return result.returncode == 0


def install(names: list[str], say: Say) -> None:
    """Install the named packages if we may, all at once, else one by one so that one bad name costs only itself."""
    prefix = _prefix()
    if prefix is None:
        return
    say(f"installing system packages: {' '.join(names)}")
    _apt_get(prefix, "update")
    options = ("install", "--no-install-recommends")
    if not _apt_get(prefix, *options, *names) and len(names) > 1:
        for name in names:
            _apt_get(prefix, *options, name)


def install_missing(purpose: str, say: Say) -> None:
    """Install what the purpose needs and this machine lacks; say what stays missing and what that costs."""
    missing = [package for package in PACKAGES if purpose in package.purposes and not package.present()]
    if missing:
        install([package.name for package in missing], say)
    for package in missing:
        if not package.present():
            say(
                f"{package.name} is not installed: {package.without} (as root: apt-get install {package.name})"
            )
