"""Options of a recording and the variables that carry them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from warpsight.errors import UsageError
from warpsight.session.settings import Settings, recorder_variables


@pytest.fixture
def fake_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = tmp_path / "libwarpsight.so"
    path.touch()
    monkeypatch.setenv("WARPSIGHT_LIBRARY", str(path))
    return str(path.resolve())


def test_settings_survive_json() -> None:
    settings = Settings(stacks="both", kernels=("gemm*", "*add*"), duration=3.5)
    assert Settings.from_json(settings.to_json()) == settings


def test_unknown_options_are_named() -> None:
    with pytest.raises(UsageError, match="no option stack;"):
        Settings.of({"stack": "python"})


def test_the_users_opencl_layers_stay(fake_library: str) -> None:
    assert (
        recorder_variables(Settings(), {"OPENCL_LAYERS": "/a.so"})["OPENCL_LAYERS"] == f"/a.so:{fake_library}"
    )
    again = recorder_variables(Settings(), {"OPENCL_LAYERS": f"/a.so:{fake_library}"})
    assert again["OPENCL_LAYERS"] == f"/a.so:{fake_library}"


def test_a_backend_loads_only_its_own_hooks(fake_library: str) -> None:
    cuda = recorder_variables(Settings(backend="cuda"), {})
    opencl = recorder_variables(Settings(backend="opencl"), {"CUDA_INJECTION64_PATH": "/other.so"})
    assert cuda["CUDA_INJECTION64_PATH"] == fake_library
    assert "OPENCL_LAYERS" not in cuda
    assert "CUDA_INJECTION64_PATH" not in opencl


def test_another_tool_is_named_not_replaced(fake_library: str) -> None:
    with pytest.raises(UsageError, match=r"/other\.so"):
        recorder_variables(Settings(), {"CUDA_INJECTION64_PATH": "/other.so"})


def test_sampling_is_switched_off_by_the_same_word_as_on_the_command_line():
    assert Settings.of({"sample": "off"}).sample == 0


def test_a_word_where_a_number_belongs_is_named():
    with pytest.raises(UsageError, match="is a number"):
        Settings.of({"flush": "often"})


def test_a_record_kind_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(UsageError, match=r"--trace takes kinds of kernel, memcpy, .*, not 'telepathy'"):
        Settings(trace=("kernel", "telepathy"))
    assert (
        Settings(trace=("kernel", "unified_memory")).variables()["WARPSIGHT_TRACE"] == "kernel,unified_memory"
    )


def test_every_kind_that_the_recorders_select_by_can_be_named() -> None:
    native = Path(__file__).parents[3] / "native"
    cuda = re.findall(r'\{"(\w+)", \{CUPTI_', (native / "cuda" / "extra_records.cpp").read_text())
    opencl = re.findall(r'kind_wanted\("(\w+)"\)', (native / "opencl" / "recorder.cpp").read_text())
    assert len(cuda) >= 10 and len(opencl) >= 7
    for kind in (*cuda, *opencl):
        Settings(trace=(kind,))


def test_one_text_is_a_list_of_one() -> None:
    found = Settings.of({"kernels": "add*", "trace": "kernel, memcpy", "triggers": "crash", "ring": "30s"})
    assert (found.kernels, found.trace, found.triggers) == (("add*",), ("kernel", "memcpy"), ("crash",))


def test_a_switch_takes_no_text() -> None:
    with pytest.raises(UsageError, match="cubins is True or False, not 'no'"):
        Settings.of({"cubins": "no"})
