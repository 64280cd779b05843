"""Options of a recording and the variables that carry them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from warpsight.errors import UsageError
from warpsight.recorder.environment import recorder_variables
from warpsight.recorder.options.settings import Settings


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
    with pytest.raises(UsageError, match="must be a whole number"):
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
    with pytest.raises(UsageError, match="cubins must be True or False, not 'no'"):
        Settings.of({"cubins": "no"})


@pytest.mark.parametrize(("api", "hint"), [
    ("cudaMemcopyAsync", "did you mean cudaMemcpyAsync"), ("clEnqueueNDRangeKernal", "clEnqueueNDRangeKernel"),
    ("CUDAMEMCPY", "cudaMemcpy"), ("cudaMalloc,nosuch*", "'nosuch"), ("launch", "launches"),
    ("default,clFinish", "default cannot be combined with names"), ("zzzz", "words: default"),
])  # fmt: skip
def test_a_function_that_no_api_has_is_refused_with_near_ones(api: str, hint: str) -> None:
    with pytest.raises(UsageError, match="--api") as error:
        Settings.of({"api": api})
    assert hint in str(error.value)


@pytest.mark.parametrize(("api", "taken"), [
    ("cudaMemcpy*", "cudaMemcpy*"), ("clFinish, cuCtxSynchronize", "clFinish,cuCtxSynchronize"), ("hipMalloc", "hipMalloc"),
    ("mcMalloc", "mcMalloc"), ("all", "all"), (["clFinish", "cuMemAlloc"], "clFinish,cuMemAlloc"), ("", "default"),
])  # fmt: skip
def test_functions_are_named_as_the_recorders_read_them(api: object, taken: str) -> None:
    assert Settings.of({"api": api}).api == taken


@pytest.mark.parametrize(("counters", "hint"), [
    ("powr", "did you mean power"), ("gpm_sm", "gpm_sm_"), ("power,nosuch", "'nosuch' matches no counter; counters: gpu_util"),
])  # fmt: skip
def test_a_counter_that_does_not_exist_is_refused_with_near_ones(counters: str, hint: str) -> None:
    with pytest.raises(UsageError, match="--counters") as error:
        Settings.of({"counters": counters})
    assert hint in str(error.value)


@pytest.mark.parametrize(("given", "taken"), [
    (50, "50"), (2.5, "2.5"), ("gpm_*", "gpm_*"), (["power", "throttle_*"], "power,throttle_*"), ("off", "off"), (0, "0"),
])  # fmt: skip
def test_counters_from_python_are_those_of_the_command_line(given: object, taken: str) -> None:
    assert Settings.of({"counters": given}).counters == taken


@pytest.mark.parametrize(("option", "value"), [
    ("stack_depth", 2.5), ("stack_depth", True), ("flush", "200"), ("sample", float("nan")), ("sample", -1), ("stacks", None),
    ("stacks", "nosuch"), ("trace", "nosuch"), ("graph", "nodes"), ("api", 3), ("counters", True), ("counters", "-5"),
    ("kernel_log", 3), ("ring", 30), ("delay", float("inf")), ("on_full", ["wait"]),
])  # fmt: skip
def test_values_that_no_option_takes_are_refused_by_name(option: str, value: object) -> None:
    with pytest.raises(UsageError, match="--" + option.replace("_", "-")):
        Settings.of({option: value})


@pytest.mark.parametrize(("backend", "option", "value", "flag"), [
    ("rocm", "graph", "node", "--graph node"), ("maca", "graph", "graph", "--graph graph"),
    ("rocm", "buffer_size", 65536, "--buffer-size 65536"), ("opencl", "buffer_size", 65536, "--buffer-size 65536"),
    ("rocm", "device_buffers", 4096, "--device-buffers 4096"), ("maca", "device_buffers", 4096, "--device-buffers 4096"),
    ("rocm", "cubins", True, "--cubins"), ("maca", "cubins", True, "--cubins"), ("opencl", "cubins", True, "--cubins"),
    ("opencl", "leave_cupti", True, "--yield"), ("cuda", "opencl_profiling", "off", "--opencl-profiling off"),
    ("maca", "capture_range", "profiler-api", "--capture-range profiler-api"),
])  # fmt: skip
def test_an_option_that_a_backends_recorder_does_not_act_on_is_refused(
    backend: str, option: str, value: object, flag: str
) -> None:
    with pytest.raises(UsageError) as error:
        Settings.of({"backend": backend, option: value})
    said = str(error.value)
    assert said.startswith((f"{flag} is the ", f"{flag} is for ")) and said.endswith(
        f"it does not go with --backend {backend}"
    )


@pytest.mark.parametrize(("backend", "option", "value"), [
    ("maca", "buffer_size", 65536), ("maca", "leave_cupti", True), ("rocm", "leave_cupti", True), ("auto", "cubins", True),
    ("auto", "opencl_profiling", "off"), ("cuda", "device_buffers", 4096), ("rocm", "graph", "auto"),
])  # fmt: skip
def test_an_option_that_a_backends_recorder_acts_on_is_taken(
    backend: str, option: str, value: object
) -> None:
    assert getattr(Settings.of({"backend": backend, option: value}), option) == value


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"sass_counts": "on", "pc_sampling": 100},
            "--sass-counts and --pc-sampling need the same GPU counters",
        ),
        (
            {"sass_counts": "on", "metrics": ["dram__bytes.sum"]},
            "--sass-counts and --metrics need the same GPU counters",
        ),
        ({"metrics_every": 100}, "give --metrics NAMES too"),
        ({"metrics_passes": "here"}, "give --metrics NAMES too"),
        (
            {"metrics": ["dram__bytes.sum"], "metrics_every": 100, "metrics_passes": "here"},
            "leave --metrics-passes out",
        ),
        ({"metrics": ["dram__bytes.sum"], "metrics_every": 100, "metrics_per": "range"}, "give one of them"),
    ],
)
def test_what_the_gpu_cannot_count_together_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Settings.of(given)
