"""The backends of this package: a row here and a folder each (also in native/ if warpsight records in the process).

The core finds this table through the entry point `warpsight.backends`, as it finds any other package's.
"""

from __future__ import annotations

from pathlib import Path

from warpsight.machine.backends.backend import ApiFunctions, Backend, Variable

_HERE = Path(__file__).parent

BACKENDS: tuple[Backend, ...] = (
    Backend(
        "nsys",
        "Nsight Systems",
        "warpsight_plugins.nsys_recorder",
        ("tool",),
        vendor="NVIDIA",
        program="nsys",
        tool_options=("duration", "delay"),
    ),
    Backend(
        "rocm",
        "AMD's GPUs: in the process through rocprofiler-sdk, or rocprofv3",
        "warpsight_plugins.rocm",
        ("in_process", "tool", "devices", "doctor"),
        api="ROCm",
        vendor="AMD",
        spellings=("Advanced Micro Devices",),
        untested=True,
        options=("leave_cupti",),
        platform=3,
        functions=(ApiFunctions(5, "hip", _HERE / "rocm/hip_functions.txt"),),
        library="rocprofiler-sdk",
        sets=(Variable("ROCP_TOOL_LIBRARIES", "rocprofiler-sdk", "`libwarpsight.so` behind existing tools"),),
        program="rocprofv3",
        tool_options=("duration", "delay"),
    ),
    Backend("intel", "Intel's GPUs", "warpsight_plugins.intel", ("devices",), vendor="Intel"),
    Backend(
        "maca",
        "MetaX' GPUs: in the process through MCPTI, or mcTracer",
        "warpsight_plugins.maca",
        ("in_process", "tool", "devices", "doctor"),
        api="MACA",
        vendor="MetaX",
        untested=True,
        options=("leave_cupti", "buffer_size"),
        platform=4,
        functions=(ApiFunctions(7, "maca", prefixes=("mc", "wc")),),
        library="mcpti",
        callback_libraries=("libmcpti",),
        variables=(
            Variable(
                "WARPSIGHT_MCPTI",
                "recorded process",
                "The `libmcpti.so` to use.",
            ),
        ),
        sets=(Variable("LD_PRELOAD", "the dynamic linker", "`libwarpsight_maca.so` before existing ones"),),
        program="mcTracer",
    ),
    Backend(
        "ascend",
        "Huawei's NPUs: msprof",
        "warpsight_plugins.ascend",
        ("tool", "devices"),
        vendor="Huawei",
        program="msprof",
        tool_options=("duration", "delay"),
    ),
    Backend(
        "metal",
        "Apple's GPUs: Instruments through xctrace",
        "warpsight_plugins.metal",
        ("tool", "devices"),
        vendor="Apple",
        program="xctrace",
        tool_options=("duration", "template"),
    ),
    Backend(
        "uprobe",
        "launches and their host stacks of any process, through perf",
        "warpsight_plugins.uprobe",
        ("tool",),
        program="perf",
        tool_options=("duration", "pid"),
    ),
)
