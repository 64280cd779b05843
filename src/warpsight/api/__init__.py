"""The Python interface across layers: a trace whose methods are the verbs, and running a program.

`warpsight.open` and `warpsight.run` are here; functions that belong to one layer (`ws.emit`, `ws.devices`) come directly from
there.
"""
