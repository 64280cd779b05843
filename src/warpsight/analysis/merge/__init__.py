"""Host stacks from outside (uprobes, perf, bpftrace) joined to the GPU work they launched.

`clocks` finds how the two files' clocks relate, `matching` pairs stacks with calls one to one, `weights` makes folded
stacks and the conservation line, `compat` reproduces an older script.
"""
