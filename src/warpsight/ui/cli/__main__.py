"""`python -m warpsight.ui.cli`."""

import sys

from warpsight.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
