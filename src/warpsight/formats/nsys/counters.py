"""Counters of a report: GPU metrics, network adapters and switches; and samples of host threads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from warpsight.formats.nsys.report import INT, REAL, TEXT
from warpsight.formats.nsys.stacks import ChainStacks
from warpsight.formats.reading.databases import distinct, distinct_rows

if TYPE_CHECKING:
    from warpsight.formats.nsys.report import Report

#: `SM Active [Throughput %]`, `GPC Clock Frequency [MHz]`
_UNIT = re.compile(r"^(?P<name>.*?)\s*\[(?P<unit>[^\]]*)\]$")
_NETWORK = ("NET_NIC_METRIC", "NET_IB_SWITCH_METRIC")


def read_gpu_metrics(report: Report) -> None:
    """GPU_METRICS; the low byte of typeId is the GPU's number."""
    report.read.update(("GPU_METRICS", "TARGET_INFO_GPU_METRICS"))
    columns = {"typeId": INT, "metricId": INT, "metricName": TEXT}
    names = {
        (row["typeId"], row["metricId"]): _name_and_unit(row["metricName"] or f"metric {row['metricId']}")
        for row in report.rows("TARGET_INFO_GPU_METRICS", columns).data.to_pylist()
    }
    for rows in report.tables.read(
        "GPU_METRICS", {"timestamp": INT, "typeId": INT, "metricId": INT, "value": REAL}
    ):
        known, take = distinct_rows([rows.numbers("typeId"), rows.numbers("metricId")])
        found = [names.get((t, m), (f"metric {m}", "1")) for t, m in known.tolist()]
        report.target.add_columns(
            "counter",
            time=rows.column("timestamp"),
            name=pa.array([name for name, _ in found], TEXT).take(take),
            value=rows.column("value"),
            unit=pa.array([unit for _, unit in found], TEXT).take(take),
            device=pa.array([report.card(t & 0xFF) for t in known[:, 0].tolist()], pa.int16()).take(take),
            source=pa.array(["gpu metrics"]).take(pa.array(np.zeros(len(rows), np.int64))),
        )


def _name_and_unit(text: str) -> tuple[str, str]:
    """Name and unit of a metric."""
    found = _UNIT.match(text)
    if found is None:
        return text, "1"
    unit = found["unit"]
    return found["name"], "%" if "%" in unit else unit


def read_network(report: Report) -> None:
    """NET_NIC_METRIC and NET_IB_SWITCH_METRIC: values of an interval, at its end."""
    report.read.update((*_NETWORK, "TARGET_INFO_NETWORK_METRICS", "NIC_ID_MAP", "TARGET_INFO_NIC_INFO"))
    columns = {"metricsListId": INT, "metricsIdx": INT, "name": TEXT, "unit": TEXT}
    names = {
        (row["metricsListId"], row["metricsIdx"]): (row["name"], row["unit"])
        for row in report.rows("TARGET_INFO_NETWORK_METRICS", columns).data.to_pylist()
    }
    adapters = _adapters(report)
    keys = ("globalId", "portId", "metricsListId", "metricsIdx", "switchId")
    for table in _NETWORK:
        for rows in report.tables.read(table, {"end": INT, "value": REAL, **dict.fromkeys(keys, INT)}):
            known, take = distinct_rows([rows.numbers(key, -1) for key in keys])
            texts, units = [], []
            for number, port, metrics, index, switch in known.tolist():
                name, unit = names.get((metrics, index), (f"metric {metrics}.{index}", "1"))
                what = f"switch {switch:x}" if switch >= 0 else adapters.get(number, f"adapter {number:x}")
                texts.append(f"{what} port {port}: {name}")
                units.append(unit or "1")
            report.target.add_columns(
                "counter",
                time=rows.column("end"),
                name=pa.array(texts, TEXT).take(take),
                value=rows.column("value"),
                unit=pa.array(units, TEXT).take(take),
                source=pa.array(["network"]).take(pa.array(np.zeros(len(rows), np.int64))),
            )


def _adapters(report: Report) -> dict[int, str]:
    """Adapter names by global id."""
    names = {
        row["nicId"]: row["name"]
        for row in report.rows("TARGET_INFO_NIC_INFO", {"nicId": INT, "name": TEXT}).data.to_pylist()
    }
    return {
        row["globalId"]: names.get(row["nicId"]) or f"adapter {row['nicId']}"
        for row in report.rows("NIC_ID_MAP", {"nicId": INT, "globalId": INT}).data.to_pylist()
    }


def read_samples(report: Report) -> None:
    """COMPOSITE_EVENTS with SAMPLING_CALLCHAINS: CPU samples of threads."""
    report.read.update(("COMPOSITE_EVENTS", "SAMPLING_CALLCHAINS", "ENUM_SAMPLING_THREAD_STATE"))
    if not report.tables.count("COMPOSITE_EVENTS"):
        return
    states = report.rows("ENUM_SAMPLING_THREAD_STATE", {"id": INT, "label": TEXT}).data.to_pylist()
    letters: dict[Any, str] = {row["id"]: _letter(row["label"] or "") for row in states}
    chains = ChainStacks(report, "SAMPLING_CALLCHAINS")
    columns = {"id": INT, "start": INT, "threadState": INT, "globalTid": INT}
    for rows in report.tables.read("COMPOSITE_EVENTS", columns):
        rows = rows.where(~rows.null("globalTid"))
        thread, process = report.threads(rows.numbers("globalTid"))
        known, places = distinct(rows.numbers("threadState", -1))
        # A sample without a state was taken by the CPU's counter: the thread ran.
        found = pa.array([letters.get(state, "R") for state in known.tolist()], TEXT)
        report.target.add_columns(
            "sample",
            time=rows.column("start"),
            thread=thread,
            stack=chains.stacks(rows.numbers("id")),
            state=found.take(places),
            gil=np.zeros(len(rows), bool),
            process=process,
        )


def _letter(label: str) -> str:
    return "R" if label.lower().startswith(("run", "unknown")) else "S"
