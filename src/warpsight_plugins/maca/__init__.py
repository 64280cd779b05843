"""MetaX' GPUs: MACA programs recorded through MCPTI or mcTracer, and the devices."""
