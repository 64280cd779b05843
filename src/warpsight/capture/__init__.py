"""From rings to a trace: segment layout, reading, conversion, recovery."""
