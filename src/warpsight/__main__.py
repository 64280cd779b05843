"""`python -m warpsight`."""

import sys

from warpsight.ui.cli.app import main

sys.exit(main())
