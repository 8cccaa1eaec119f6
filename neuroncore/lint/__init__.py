"""Likely mistakes in the source of a kernel, found without executing it.

`static` reads a file and all functions that its kernels call. `modules` finds files and the
meanings of names. `kernels` finds the functions that the device runs, and the bindings of names in
them. `inference` finds the kinds of expressions, and `syntax` reads the syntax tree. Rules are in
`constructs`, `dynamic` and `api_calls`. Names and parameters of each release, and known issues, are
data in `api/`.

These modules do not import numpy, directly or indirectly: checking a file takes less time than that
import.
"""
