"""One clock for all ranks of a job: offsets between two clocks, and those of all."""
