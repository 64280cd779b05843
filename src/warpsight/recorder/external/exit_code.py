"""Runs a program and writes its exit code to a file, for recorders that replace the exit code with their own.

    python exit_code.py FILE CMD [ARGS]…

It is run by its path, because some recorders split their command at spaces. Signals from the recorder are passed on to the
program; a shell would leave it running.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":  # other modules must not be imported from this folder
    sys.path[0] = str(Path(__file__).resolve().parents[3])

from warpsight.recorder.signals import run_to_end


def main(argv: Sequence[str]) -> int:
    """Run the command; return its exit code, 128 + signal, 127 or 126, and write it to the file."""
    file, command = Path(argv[0]), list(argv[1:])
    try:
        code = run_to_end(command)
    except OSError as error:
        print(f"{command[0]}: {(error.strerror or str(error)).lower()}", file=sys.stderr)
        code = 127 if isinstance(error, (FileNotFoundError, NotADirectoryError)) else 126
    file.write_text(f"{code}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
