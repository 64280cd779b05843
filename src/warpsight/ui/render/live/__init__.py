"""A running recording on a terminal."""
