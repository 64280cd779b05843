"""`python -m warpsight.cli`."""

import sys

from warpsight.cli.app import main

sys.exit(main())
