"""What writers share: a trace as tracks, batches of rows, protobuf."""
