"""Vendors' own recorders behind `record --backend`: run with the program, and what they write is imported.

They are there for what warpsight's recorders cannot do: other hardware, hardware counters.
"""
