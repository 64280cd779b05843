"""Heat spreading over a plate, on the first OpenCL device: three kernels, copies both ways, named phases."""

from __future__ import annotations

import ctypes
import sys

import warpsight as ws
from warpsight.errors import WarpsightError
from warpsight.machine.opencl_session import OpenclSession

SIZE, STEPS, REPORT_EVERY = 256, 300, 50
SOURCE = """
__kernel void heat_step(__global const float *now, __global float *next, float rate) {
  const int x = get_global_id(0), y = get_global_id(1), w = get_global_size(0), h = get_global_size(1);
  const int at = y * w + x;
  if (x == 0 || y == 0 || x == w - 1 || y == h - 1) { next[at] = now[at]; return; }
  next[at] = now[at] + rate * (now[at - 1] + now[at + 1] + now[at - w] + now[at + w] - 4 * now[at]);
}
__kernel void change(__global const float *a, __global const float *b, __global float *out) {
  const int at = get_global_id(0);
  out[at] = fabs(a[at] - b[at]);
}
__kernel void row_maximum(__global const float *values, __global float *rows) {
  const int row = get_global_id(0), w = get_global_size(0);
  float most = 0;
  for (int x = 0; x < w; ++x) most = fmax(most, values[row * w + x]);
  rows[row] = most;
}
"""


_Handle = ctypes.c_void_p


def _largest_change(queue: OpenclSession, kernels: list[_Handle], buffers: list[_Handle]) -> float:
    """The largest change in the last step."""
    _, change, row_maximum = kernels
    now, following, difference, rows = buffers
    queue.set_arguments(change, now, following, difference)
    queue.launch(change, (SIZE * SIZE,), (64,))
    queue.set_arguments(row_maximum, difference, rows)
    queue.launch(row_maximum, (SIZE,), (64,))
    result = (ctypes.c_float * SIZE)()
    queue.read(rows, result, 4 * SIZE)
    return float(max(result))


def main() -> None:
    """Run to the end and print the result."""
    try:
        queue = OpenclSession()
    except WarpsightError as error:
        sys.exit(str(error))
    print(f"heat on {queue.device.name}")
    with ws.annotate("set up"):
        kernels = [queue.kernel(SOURCE, name) for name in ("heat_step", "change", "row_maximum")]
        size = 4 * SIZE * SIZE
        now, following, difference = (queue.buffer(size) for _ in range(3))
        rows = queue.buffer(4 * SIZE)
        plate = (ctypes.c_float * (SIZE * SIZE))()
        plate[SIZE // 2] = 1000.0  # one hot spot at the upper edge
        queue.write(now, plate, size)
        queue.copy(now, following, size)
    with ws.annotate("simulate"):
        for step in range(1, STEPS + 1):
            queue.set_arguments(kernels[0], now, following, 0.2)
            queue.launch(kernels[0], (SIZE, SIZE), (16, 16))
            now, following = following, now
            if step % REPORT_EVERY == 0:
                with ws.annotate("report", step=step):
                    moved = _largest_change(queue, kernels, [now, following, difference, rows])
                    ws.counter("largest change", moved, "K")
    with ws.annotate("read back"):
        queue.read(now, plate, size)
    print(f"{STEPS} steps; {sum(plate):.0f} K in all, largest change in the last step {moved:.4f} K")


if __name__ == "__main__":
    main()
