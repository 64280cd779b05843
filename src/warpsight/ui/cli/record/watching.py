"""What `warpsight watch` and `dump` share: a watched run, and reports as files and on the terminal."""

from __future__ import annotations

import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsight.errors import WarpsightError
from warpsight.recorder.launch import LaunchedProgram
from warpsight.recorder.options.settings import Settings
from warpsight.recorder.server import Server
from warpsight.recorder.signals import Signals
from warpsight.recorder.watch import coredump
from warpsight.recorder.watch.event import Incident
from warpsight.recorder.watch.suspicion import StallLimits
from warpsight.recorder.watch.watch import Watch, WatchOptions
from warpsight.ui.cli.output import json_text
from warpsight.ui.render import terminal


@dataclass(frozen=True)
class Wanted:
    """Options of a watched run; times in seconds."""

    folder: Path
    hang_after: float
    kernel_timeout: float
    no_data_timeout: float
    on_hang: str
    dumps: bool
    dump_memory: str
    dump_dir: Path | None
    gzip: bool
    ring: str
    stacks: str


def run(program: list[str], wanted: Wanted) -> int:
    """Run the program under a watch and return its exit code."""
    terminal.let_messages_fail()
    settings = Settings(ring=wanted.ring, triggers=("none",), stacks=wanted.stacks, leave_cupti=wanted.dumps)
    server = Server(wanted.folder / "last.warp", settings)
    # Still held back after the program: an impatient Ctrl-C must not cost the report.
    with Signals() as signals:
        return _watched(server, program, wanted, signals)


def _watched(server: Server, program: list[str], wanted: Wanted, signals: Signals) -> int:
    try:
        armed = _arm(wanted)
        reporter = _Reporter(wanted.folder, program)
        changed = {**os.environ, **{name: value or "" for name, value in armed.items()}}
        limits = StallLimits(wanted.hang_after, wanted.kernel_timeout, wanted.no_data_timeout)
        options = WatchOptions(
            limits, wanted.on_hang, wanted.dumps, wanted.gzip, coredump.file_template(changed)
        )
        watch = Watch(server, options, terminal.note, reporter.take)
        launch = LaunchedProgram(
            server, terminal.note, extra=armed, on_interrupt=watch.interrupt, on_start=watch.start
        )
        code = launch.run(program, signals)
    except BaseException:
        server.abandon()
        shutil.rmtree(wanted.folder, ignore_errors=True)
        raise
    watch.stop()
    _finish(server, watch, reporter, program, code)
    return code


def _arm(wanted: Wanted) -> dict[str, str | None]:
    """Changes to the environment that arm dumps; the user's own values win."""
    if not wanted.dumps:
        return {}
    folder = wanted.dump_dir or wanted.folder
    folder.mkdir(parents=True, exist_ok=True)
    armed = coredump.arm(os.environ, folder.absolute(), wanted.dump_memory, on_request=True)
    for note in armed.notes:
        terminal.note(note)
    preload = coredump.preload(os.environ)
    if not preload:
        terminal.note(
            "this installation has no libwarpsight_preload.so: launches are not recorded while dumps are armed"
        )
    # with an injection library, any, the driver of an H200 (580) wrote no dump
    return {**armed.variables, **preload, "CUDA_INJECTION64_PATH": None}


def _finish(server: Server, watch: Watch, reporter: _Reporter, program: list[str], code: int) -> None:
    """Complete the last window; report a crash; leave nothing when there is nothing to report."""
    trace: Path | None = None
    crash = watch.crash()
    try:
        trace = server.finish(command=program).path
    except WarpsightError as error:
        terminal.error(str(error))
    if crash is None and trace is not None and code:
        crash = _device_error(trace, code)
    if crash is not None:
        crash.trace = trace
        reporter.take(crash)
    for pipe in reporter.folder.glob("pipe.*"):  # the driver leaves it where the program was killed
        pipe.unlink(missing_ok=True)
    if not reporter.written:
        shutil.rmtree(reporter.folder, ignore_errors=True)
    elif not any(event.trace == trace for event in reporter.events):
        shutil.rmtree(reporter.folder / "last.warp", ignore_errors=True)


def _device_error(trace: Path, code: int) -> Incident | None:
    """A CUDA error that ended the program by its own hand: an exit code, not a signal."""
    from contextlib import closing

    import warpsight.model
    from warpsight.debug import hang_report

    try:
        with closing(warpsight.model.open(trace)) as opened:
            error = hang_report.device_error(opened)
    except WarpsightError:
        return None
    if error is None:
        return None
    reason = (
        f"crash: CUDA error {error['code']} ({error['meaning']}); the program ended with exit code {code}"
    )
    notes = ["to find the kernel's line, run it with --dumps: a GPU core dump shows where it was"]
    return Incident(
        "crash", reason, time.monotonic_ns(), exit=f"exit {code}", pid=int(error["pid"]), notes=notes
    )


class _Reporter:
    """Writes each event as report.txt, .json and .html (numbered from the second on) and prints the text."""

    def __init__(self, folder: Path, program: list[str]) -> None:
        self.folder = folder
        self.events: list[Incident] = []
        self.written: list[Path] = []
        self._program = program

    def take(self, event: Incident) -> None:
        """Report one event."""
        from warpsight.debug import hang_report
        from warpsight.ui.render.dump import hang_html, hang_page

        self.events.append(event)
        report = hang_report.build(event, decode, program=self._program)
        page = hang_page.text(report)
        number = len(self.events)
        stem = "report" if number == 1 else f"report-{number}"
        written = ((".txt", page), (".json", json_text(report)), (".html", hang_html.page(report)))
        for suffix, content in written:
            path = self.folder / (stem + suffix)
            try:
                path.write_text(content, encoding="utf-8")
                path.chmod(0o600)
                self.written.append(path)
            except OSError as error:
                terminal.error(f"{path} cannot be written: {(error.strerror or str(error)).lower()}")
        sys.stderr.write("\n" + page + "\n")
        terminal.note(f"report: {self.folder / (stem + '.html')}, {stem}.txt, {stem}.json")


def decode(path: Path) -> dict[str, Any]:
    """A core dump's verdict in the form used by reports: `verdict`, `text` (lines) and `kernels`."""
    from warpsight.debug import core_verdict

    return core_verdict.decode(path)
