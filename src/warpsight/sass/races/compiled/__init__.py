"""Race checks that are compiled into kernels: a module's PTX gets them before the driver loads it.

Calls that ptxas compiles together with a kernel cost a fraction of the Sanitizer's patches, which save every register and jump
to other code before each access. They need the module's PTX, which nvcc puts into a program by default; modules without it, and
modules with instructions that are not known here, are patched as before.
"""
