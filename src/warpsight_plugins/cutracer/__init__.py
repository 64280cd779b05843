"""CUTracer's instruction traces and kernel events: NDJSON (plain or compressed) and text."""
