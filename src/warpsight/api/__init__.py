"""The Python interface across layers: a trace whose methods are the verbs, and running a program.

`warpsight.open` and `warpsight.run` are here; what is one function of one layer (`ws.emit`, `ws.devices`) is that function.
"""
