"""Vendors' recorders behind `record --backend`: run with the program, and their output is imported.

They are there for what warpsight's recorders cannot do: other hardware, hardware counters.
"""
