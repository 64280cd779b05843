"""Output of BPF tools: bpftrace, TraceSmith's event records."""
