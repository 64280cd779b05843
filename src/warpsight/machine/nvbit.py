"""NVIDIA's NVBit, which traces registers, tensor copies and every instruction: the user's copy, and a compiler for its tools."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from warpsight.errors import WarpsightError

PATH = "NVBIT_PATH"


def core_folder() -> Path:
    """The folder of the user's copy that holds nvbit.h and libnvbit.a.

    Raises:
        WarpsightError: when the variable is not set or names another folder.
    """
    named = os.environ.get(PATH)
    if not named:
        raise WarpsightError(
            "this needs NVIDIA's NVBit, which warpsight does not ship: download a release "
            f"from https://github.com/NVlabs/NVBit, unpack it, and set {PATH} to its folder core"
        )
    for folder in (Path(named), Path(named, "core")):
        if (folder / "nvbit.h").is_file() and (folder / "libnvbit.a").is_file():
            return folder.resolve()
    raise WarpsightError(
        f"{PATH}={named} has no nvbit.h and libnvbit.a: name the folder core of an NVBit release"
    )


def compiler() -> Path:
    """Where nvcc is.

    Raises:
        WarpsightError: when it is not installed.
    """
    folders = [Path(os.environ[name], "bin") for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    searched = os.pathsep.join([os.environ.get("PATH", ""), *map(str, folders), "/usr/local/cuda/bin"])
    found = shutil.which("nvcc", path=searched)
    if found is None:
        raise WarpsightError(
            "nvcc, which builds the tool for NVBit, is not installed: install the CUDA toolkit"
        )
    return Path(found)
