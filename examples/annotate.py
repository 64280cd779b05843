"""Name phases, count things and add events of your own, with or without a GPU."""

import sys

from devices import arguments, workload

import warpsight as ws

DEVICES = ("cuda", "opencl", "cpu")


def main() -> None:
    options = arguments(__doc__, DEVICES)
    path = options.output / "phases.warp"
    with ws.record(path):
        step = workload(options.device)
        for index in range(5):
            with ws.annotate("step"):
                step()
            ws.counter("loss", 1.0 / (index + 1))
        ws.emit("checkpoint written", kind="io", bytes=4096)

    trace = ws.open(path)
    (ranges,) = trace.sql("SELECT count(*) FROM marker WHERE name = 'step'").fetchall()[0]
    (values,) = trace.sql("SELECT count(*) FROM counter WHERE name = 'loss'").fetchall()[0]
    print(f"{ranges} ranges named step, {values} values of loss")
    if ranges != 5 or values != 5:
        sys.exit("something of ours is missing in the trace")


if __name__ == "__main__":
    main()
