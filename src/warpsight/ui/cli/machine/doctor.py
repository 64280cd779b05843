"""`warpsight doctor`: what works on this machine, and how to fix the rest."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from warpsight.ui.cli import options


def command(
    selftest: Annotated[bool, typer.Option("--selftest", help="Try every capability.")] = False,
    as_json: options.PrintJson = False,
) -> None:
    """Say what works here, what does not, and the command that fixes it.

    Exit code 1 when nothing can be recorded here, or a self-test fails.
    """
    if selftest:
        _selftest(as_json)
        return
    from warpsight.machine import checks

    found = checks.run()
    if as_json:
        print(json.dumps({"checks": [c.to_json() for c in found]}, indent=1))
    else:
        for check in found:
            print(f"{check.state:<9} {check.feature:<20} {check.why}")
            if check.fix and check.state != checks.OK:
                print(f"{'':<9} {'':<20} → {check.fix}")
    states = {check.feature: check.state for check in found}
    cuda = states.get("CUDA driver") == checks.OK and states["CUPTI"] != checks.MISSING
    opencl = states.get("OpenCL") == checks.OK and states["OpenCL recording"] != checks.MISSING
    if states["recorder"] != checks.OK or not (cuda or opencl):
        typer.echo("nothing can be recorded here yet", err=True)
        raise typer.Exit(1)


def _selftest(as_json: bool) -> None:
    from warpsight.recorder.trial import selftest

    found = selftest.run()
    if as_json:
        print(json.dumps({"selftest": [t.to_json() for t in found]}, indent=1))
    else:
        for trial in found:
            print(f"{trial.outcome:<7} {trial.capability:<20} {trial.reason}")
    if any(trial.outcome == "fails" for trial in found):
        raise typer.Exit(1)
