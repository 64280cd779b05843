"""From instructions to source lines: line tables, inlined calls, PTX."""
