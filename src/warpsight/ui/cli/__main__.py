"""`python -m warpsight.ui.cli`."""

import sys

from warpsight.ui.cli.app import main

sys.exit(main())
