"""Chrome's "Trace Event Format": JSON that a dozen tools write in as many dialects."""
