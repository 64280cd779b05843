"""LLVM XRay logs, genuine ones: basic mode and flight data recorder (FDR) mode, file versions 1 to 5."""
