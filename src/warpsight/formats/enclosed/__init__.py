"""The exported rows themselves, embedded in the export, so that importing our own file loses nothing.

A timeline format holds what its viewers show: no mangled names, no launch results, no allocations, stacks as text. So our Kineto,
Chrome and Perfetto files carry the selected rows of all tables behind their events, in a compact form that viewers skip, with a
checksum of everything before it. An import takes these rows where the checksum holds; in a file that was changed since, the
events count.
"""
