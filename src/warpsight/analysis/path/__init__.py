"""Who waited for whom: the dependency graph of a recording, and pictures of it.

:func:`~warpsight.analysis.path.dependencies.build` makes it. How it is built, and why it has no cycles, is explained in
`docs/explanation/critical-path.md`.
"""
