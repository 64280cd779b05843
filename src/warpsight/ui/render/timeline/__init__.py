"""The timeline on a terminal."""
