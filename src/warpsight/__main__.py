"""`warpsight` and `python -m warpsight`."""

import os
import signal
import sys

_INTERRUPTED = 130


def main() -> int:
    """Run the command line; Ctrl-C while it is loaded ends the process with 130 and prints nothing."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    from warpsight.ui.cli.app import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
