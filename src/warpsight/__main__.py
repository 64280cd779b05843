"""`warpsight` and `python -m warpsight`."""

import _signal  # type: ignore[import-not-found] # built in; `signal` loads some ten modules first
import os
import sys

_INTERRUPTED = 130


def main() -> int:
    """Run the command line; Ctrl-C while it is loaded ends the process with 130 and prints nothing."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, lambda *_: os._exit(_INTERRUPTED))
    from warpsight.ui.cli.app import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
