"""Probes: user functions that run at a kernel's instructions, on the GPU, and count into maps."""

from __future__ import annotations

from warpsight.sass.probes.definition import Probe as Probe
from warpsight.sass.probes.definition import probe as probe
from warpsight.sass.probes.event import Event as Event
from warpsight.sass.probes.event import as_bfloat16 as as_bfloat16
from warpsight.sass.probes.event import as_float16 as as_float16
from warpsight.sass.probes.event import as_float32 as as_float32
from warpsight.sass.probes.event import as_float64 as as_float64
from warpsight.sass.probes.event import isinf as isinf
from warpsight.sass.probes.event import isnan as isnan
from warpsight.sass.probes.event import popcount as popcount
from warpsight.sass.probes.maps import array as array
from warpsight.sass.probes.maps import counter as counter
from warpsight.sass.probes.maps import histogram as histogram
from warpsight.sass.probes.maps import ring as ring
from warpsight.sass.probes.maps import top as top
