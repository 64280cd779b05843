"""How a trace is stored on disk: parts, columns, manifest."""
