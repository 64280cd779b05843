"""The timeline: everything with a start and an end, in rows, at the detail that a window needs."""
