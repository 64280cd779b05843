"""A plain program, unaware of warpsight, that the other examples record: some steps of two kernels each."""

from devices import arguments, workload


def main() -> None:
    options = arguments(__doc__, ("cuda", "opencl", "cpu"))
    step = workload(options.device)
    for _ in range(50):
        step()


if __name__ == "__main__":
    main()
