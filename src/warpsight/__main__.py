"""`warpsight` and `python -m warpsight`."""

import signal
import sys


def main() -> int:
    """Run the command line; Ctrl-C while it is loaded ends the process without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from warpsight.ui.cli.app import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
