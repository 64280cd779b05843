"""Tables about one aspect of a trace: kernels, launches, copies, utilization, states, clocks, contents."""
