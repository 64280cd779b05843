"""Chrome's "Trace Event Format": JSON that a dozen tools write in their own dialects."""
