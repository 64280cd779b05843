"""How long a recorded program would have taken if something in it were different.

:func:`~warpsight.simulate.simulation.simulate` changes the program that :mod:`warpsight.analysis.retime` makes of a recording and
runs it again. The model and its limits are explained in `docs/explanation/simulate.md`.
"""
