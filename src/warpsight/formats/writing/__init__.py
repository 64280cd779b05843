"""Shared parts of writers: a trace as tracks, batches of rows, protobuf."""
