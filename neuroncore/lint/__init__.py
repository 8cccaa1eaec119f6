"""Likely mistakes in the source of a kernel, found without executing it.

`static` reads the file and all that it calls. `modules` finds files and the meanings of names,
`kernels` the functions that the device runs, `names` the bindings in those functions, and
`inference` the kinds of expressions; `walk` visits their nodes. `nodes` and `syntax` read the
syntax tree. Rules are in `subset`, `dynamic`, `purity`, `signatures`, `api_calls` and `older`;
names and parameters of each release, and known issues, are data in `api/`.

These modules do not import numpy, directly or indirectly: a check of a file takes less time than
that import.
"""
