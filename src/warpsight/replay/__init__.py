"""Capsules: GPU work cut out of a running program with everything it needs to run again.

:mod:`~warpsight.replay.capsule.manifest` says what a capsule holds, :mod:`~warpsight.replay.capsule.store` reads and writes one.
"""
