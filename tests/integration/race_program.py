"""A program with an ordering bug that delays bring out, on the CPU: `race_program.py [OPTIONS]`.

It carries out the plan that WARPSIGHT_RACE_PLAN names itself, on a clock of its own: a producer announces its data before they
are written, and a consumer waits too short. The bug shows when the producer waits for more than 2 µs at all of the --needed of
its 16 steps, in warp 3 of CTA 5, so it depends on the plan alone; --show and --natural add chance from the run's number.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

SLACK_NS = 2000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--needed", default="4,9")
    parser.add_argument("--show", type=float, default=1.0)
    parser.add_argument("--natural", type=float, default=0.0)
    parser.add_argument("--how", default="exit")
    parser.add_argument("--sleep", type=float, default=0.0)
    options = parser.parse_args()
    plan = json.loads(Path(os.environ["WARPSIGHT_RACE_PLAN"]).read_text())
    waited = {point["pc"] // 16 for point in plan["points"]} if plan["probability"] else set()
    where = plan.get("where", {})
    selected = 3 in where.get("warps", [3]) and any(
        low <= 5 < high for low, high in where.get("ctas", [[0, 99]])
    )
    late = (
        {int(step) for step in options.needed.split(",")} <= waited
        and selected
        and plan["ceiling_ns"] > SLACK_NS
    )
    run = Path(os.environ["WARPSIGHT_RACE_PLAN"]).parent.name
    chance = random.Random(
        f"{run} {options.show}"
    ).random()  # another one in each run, the same when it is repeated
    time.sleep(options.sleep)
    wrong = chance < (options.show if late else options.natural)
    print("sum", 1.5 if wrong and options.how == "output" else 1.0)
    sys.stdout.flush()
    if wrong and options.how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if wrong and options.how == "hang":
        signal.pause()
    sys.exit(1 if wrong and options.how == "exit" else 0)


if __name__ == "__main__":
    main()
