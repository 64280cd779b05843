"""Launch stacks of processes that nobody injected anything into, through perf's uprobes."""
