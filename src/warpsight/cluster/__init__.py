"""Jobs of many ranks: one clock, matched collectives, and which rank holds the others up."""
