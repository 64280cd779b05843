"""The timeline: everything that has a begin and an end, in rows, at the level of detail that a window needs."""
