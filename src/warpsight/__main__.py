"""`python -m warpsight`."""

import sys

from warpsight.cli.app import main

sys.exit(main())
