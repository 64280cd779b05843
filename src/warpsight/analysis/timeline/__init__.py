"""The timeline: everything with a start and an end, in rows, at the level of detail that a window needs."""
