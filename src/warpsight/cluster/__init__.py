"""Jobs of many ranks: aligned clocks, matched collectives, and which rank holds the others up."""
