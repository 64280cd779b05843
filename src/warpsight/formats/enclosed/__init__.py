"""The exported rows themselves, embedded in the export, so that importing our own file loses nothing.

A timeline format holds only what its viewers show: stacks as text, but no mangled names, launch results or allocations. So our
Kineto, Chrome and Perfetto files carry the selected rows of all tables behind their events, in a compact form that viewers skip,
with a checksum of everything before it. An import uses these rows if the checksum matches, and the events if the file has been
changed since.
"""
