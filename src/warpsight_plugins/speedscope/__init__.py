"""speedscope's JSON (https://www.speedscope.app/file-format-schema.json): sampled and evented profiles."""
