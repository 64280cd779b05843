"""Predicts when everything would have happened had something taken a different time.

:func:`~warpsight.analysis.retime.building.build` makes a :class:`~warpsight.analysis.retime.program.Program` of a recording,
:func:`~warpsight.analysis.retime.solving.solve` says when each of its points happens. The model is explained in
`docs/explanation/simulate.md`.
"""
