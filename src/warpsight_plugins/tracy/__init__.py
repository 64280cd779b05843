"""Tracy: captures are recognized and refused with advice; the output of tracy-csvexport is read.

A capture is a memory image of Tracy's server. It changes with nearly every version (the loader has a branch for each), is
compressed in interleaved streams, and is described only by that loader. A reader of one version would misread the next, so
conversion is left to the tool of the same version.
"""
