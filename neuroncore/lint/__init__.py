"""Likely mistakes in the source of a kernel, found without executing it.

`static` reads the file and all that it calls. `modules` finds files and the meanings of names,
`kernels` the functions that the device runs and the bindings in them, `inference` the kinds of
expressions, and `syntax` reads the syntax tree. Rules are in `constructs`, `dynamic` and
`api_calls`; names and parameters of each release, and known issues, are data in `api/`.

These modules do not import numpy, directly or indirectly: a check of a file takes less time than
that import.
"""
