"""Likely mistakes in the source of a kernel, found without executing it.

`static` reads a file and all functions that its kernels call. `modules` finds files and the
meanings of names. `kernels` finds the functions that the device runs, and the bindings of names in
these functions. `inference` finds the kinds of expressions, and `syntax` reads the syntax tree. The
rules are in `constructs`, `dynamic` and `api_calls`. The folder `api/` lists the names and
parameters of each release, and known issues.

These modules do not import numpy, directly or indirectly, because importing numpy takes more time
than checking a file.
"""
