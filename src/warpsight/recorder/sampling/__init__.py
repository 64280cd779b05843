"""What the launcher samples beside the recording: GPU counters and host threads."""
