"""The Python interface where it spans layers: a trace that answers by methods what the verbs print, and running a program.

`warpsight.open` and `warpsight.run` are here; what is one function of one layer (`ws.emit`, `ws.devices`) is that function.
"""
