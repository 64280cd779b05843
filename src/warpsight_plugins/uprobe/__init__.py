"""Launch stacks of processes without any injected code, through perf's uprobes."""
