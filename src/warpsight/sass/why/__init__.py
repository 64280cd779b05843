"""Why a kernel's warps stall: each sampled stall blamed on its causes, and advice."""
