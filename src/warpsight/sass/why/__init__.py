"""Why a kernel's warps stall: each sampled stall blamed on the instructions that cause it, and what to change."""
