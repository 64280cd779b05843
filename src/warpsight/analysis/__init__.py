"""Questions about a trace, one module each: `f(trace, …) -> Result`; nothing here prints or plots."""
