"""`warpsight version`."""

from __future__ import annotations

import json
import sys

from warpsight.ui.cli import options
from warpsight.ui.cli.about import installed


def command(as_json: options.PrintJson = False) -> None:
    """Show versions of warpsight, its parts and its libraries."""
    sys.stdout.write(json.dumps(installed.versions(), indent=1) + "\n" if as_json else installed.text())
