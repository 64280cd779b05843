"""Tracy: captures are recognized and refused with advice; the output of tracy-csvexport is read.

A capture is a memory image of Tracy's server that changes with nearly every version (its loader has a branch for each), is
compressed in interleaved streams, and has no description but that loader. A reader of one version would misread the next,
so the conversion is left to the tool of the same version.
"""
