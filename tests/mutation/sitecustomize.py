"""Found first on PYTHONPATH by every Python that a test starts: measures it under the name of that test."""

import os

if os.environ.get("MUTATION_TEST") and os.environ.get("COVERAGE_PROCESS_START"):
    import coverage

    coverage.process_startup()
