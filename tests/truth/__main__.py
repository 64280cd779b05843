"""`python -m tests.truth SEED`: shows a program and its truth, and writes its trace."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.truth import listing, synthetic
from tests.truth.programs import generate
from tests.truth.truth import truth_of
from tests.truth.world import run


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the trace into this folder")
    parser.add_argument("--judge", action="store_true", help="analyse the trace too, and say what is wrong")
    options = parser.parse_args()
    execution = run(generate(options.seed))
    truth = truth_of(execution)
    print("\n".join([*listing.program_lines(execution.program), "", *listing.truth_lines(truth)]))
    folder = options.keep or Path(tempfile.mkdtemp(prefix=f"truth-{options.seed}-"))
    folder.mkdir(parents=True, exist_ok=True)
    path = synthetic.write(execution, folder)
    print(f"\nwritten: {path}")
    if options.judge:
        from tests.truth.answers import answer
        from tests.truth.judging import judge

        found = judge(truth, answer(path))
        for text in (*found.account, *found.false, found.first, found.count, found.median):
            if text is not None:
                print(f"wrong: {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
