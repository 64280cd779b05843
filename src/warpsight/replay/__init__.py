"""Capsules: GPU work cut out of a running program with everything it needs to run again.

:mod:`~warpsight.replay.manifest` says what a capsule holds, :mod:`~warpsight.replay.capsule` reads and writes one.
"""
