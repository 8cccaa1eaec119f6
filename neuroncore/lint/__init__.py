"""Likely mistakes in the source of a kernel, found without executing it.

* `static` reads a file and all functions that its kernels call.
* `modules` finds files and the meanings of names.
* `kernels` finds the functions that the device runs, and the bindings of their names.
* `inference` finds the kinds of expressions. `syntax` reads the syntax tree.
* `constructs`, `dynamic` and `api_calls` contain the rules.
* `api/` lists the names and parameters of each release, and known issues.

Nothing here imports numpy, because that takes longer than checking a file."""
