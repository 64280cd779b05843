"""Perfetto's protobuf trace format, written natively: `writer.write`."""
