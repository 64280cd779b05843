"""Timing bugs: provoke them with delays, confirm that the delays are the cause, and shrink them to the fewest points."""
