"""Record a part of a program from inside: `with ws.record(...)`, one `ws.step()` per iteration."""

import sys

from devices import arguments, workload

import warpsight as ws

DEVICES = ("cuda", "opencl")


def main() -> None:
    options = arguments(__doc__, DEVICES)
    path = options.output / "part.warp"
    # An OpenCL loader reads its layers once, at the first call: begin recording before it.
    with ws.record(path):
        step = workload(options.device)
        for _ in range(20):
            step()
            ws.step()
    (kernels,) = ws.open(path).sql("SELECT count(*) FROM kernel").fetchall()[0]
    print(f"{kernels} kernels in {path.name}")
    if kernels < 40:
        sys.exit("kernels are missing")


if __name__ == "__main__":
    main()
