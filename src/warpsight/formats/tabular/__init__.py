"""All tables of a trace as files that every data tool reads, one per table, in one zip archive.

Parquet and Arrow IPC keep types and units (in the fields' metadata); CSV and JSON lines are text. Names and shapes are
looked up: a kernel's row has its name, grid and block.
"""
