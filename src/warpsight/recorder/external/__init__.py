"""Vendors' recorders behind `record --backend`: they run with the program, and their output is imported.

They do what warpsight's own recorders cannot, such as recording other hardware or hardware counters.
"""
