"""The types of the answers that verbs print as JSON."""
