"""How a trace lies on disk: parts, columns, manifest."""
